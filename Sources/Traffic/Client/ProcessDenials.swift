import Glibc
import Observability
import TLS
import Transport

// What the process and its workers do with the clients that the API denies.

extension SharedState {
  /// Takes the denials that the state directory keeps. Throws if they can't be read: nobody knows then who is denied.
  package func restoreDenials(_ state: DenialState?) throws(DenialState.Fault) {
    guard let state else { return }
    denials.keep(in: state)
    let wall = UInt64(clamping: Int64(time(nil))), now = MonotonicClock.milliseconds
    for entry in try state.read() where entry.end > wall {
      _ = denials.deny(entry.fingerprint, seconds: Int(clamping: entry.end - wall), for: entry.reason, now: now)
    }
  }

  /// The denials for a process that takes this one's place, with the milliseconds that are left.
  package var handedDenials: String { DenialState.text(denials.left(unit: 1)) }

  /// Takes those of the process that this one replaces. Returns how many there are; nil for a text that is none.
  package func takeDenials(_ text: [UInt8]) -> Int? {
    guard let entries = DenialState.entries(text) else { return nil }
    for entry in entries {
      _ = denials.deny(entry.fingerprint, seconds: Int(clamping: entry.end / 1000) &+ 1, for: entry.reason)
    }
    return entries.count
  }

  /// Takes the denials that the process in this one's place has written to the state directory since, and returns the
  /// clients of the new ones. A file that can't be read changes nothing. Blocks.
  package func takeDenialsOfSuccessor() -> [ClientName] {
    guard let entries = try? denials.state?.read() else { return [] }
    let known = Set(denials.left(unit: 1).map(\.fingerprint)), wall = UInt64(clamping: Int64(time(nil)))
    return entries.filter { $0.end > wall && !known.contains($0.fingerprint) }.compactMap { entry in
      denials.deny(entry.fingerprint, seconds: Int(clamping: entry.end &- wall), for: entry.reason)
        ? .fingerprint(entry.fingerprint) : nil
    }
  }
}

extension Worker {
  /// Cuts the connections of a client, and the requests that fronts have sent for it, at once. Returns how many there were.
  package func cut(clientsNamed name: ClientName) -> Int {
    Array(sessions.values).reduce(0) { $0 + $1.cut(clientNamed: name) }
  }
}

extension ClientSession {
  fileprivate func cut(clientNamed name: ClientName) -> Int {
    let own = [facts.clientVerdict?.certificate, passed?.tls.clientVerdict.certificate]
    if own.contains(where: { $0.map(name.names) ?? false }) {
      cut()
      return 1
    }
    let relayed = transactions.filter { $0.isUnderWay && $0.relayed?.certificates.first.map(name.names) ?? false }
    for transaction in relayed {
      transaction.log(.info, "the \(transaction.thing) was cut by the API")
      transaction.wasRevoked()
    }
    return relayed.count
  }
}
