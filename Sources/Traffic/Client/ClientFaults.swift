import Crypto
import Observability
import TLS
package import Transport

// What sessions, requests and workers tell the log of clients' faults.

extension ClientFaultLog {
  /// Logs who was refused a request, and why. Of many refusals, the log gets some lines and then their number.
  @inline(never)
  func logRefusal(
    of transaction: Transaction, _ refusal: ClientRefusal, _ level: LogLevel, _ reason: String, isCut: Bool = false
  ) {
    for watch in transaction.server.root.watches {
      watch.clientWasRefused(transaction, refusal, reason, isCut: isCut)
    }
    let writes = refusals.note(refusal, of: transaction.clientAddress.host, now: transaction.worker.loop.now)
    transaction.log(
      writes ? level : .debug, fields: refusal.journalFields(of: transaction, reason),
      reason + transaction.facts.loggedClient)
  }
}

extension ClientSession {
  /// The level for a failed handshake, and whether it has a line of its own. Below that, each has one at `debug`.
  func judgeFailure(_ tls: TLSStream, _ cause: HandshakeCause) -> (level: LogLevel, writes: Bool) {
    let faults = worker.shared.clientFaults
    let (host, now) = (facts.peer.host, worker.loop.now)
    switch cause {
    case .rule: return (.error, faults.refusals.note(.rule, of: host, now: now))
    case .certificate, .noCertificate: return (.notice, faults.refusals.note(.certificate, of: host, now: now))
    case .internal, .noServerCertificate: return (.error, faults.handshakes.note(cause, of: host, now: now))
    default: return (.info, faults.handshakes.note(cause, of: host, now: now))
    }
  }
}

extension Worker {
  /// Counts that a client met a limit. Returns whether the caller writes a line about it.
  package func note(_ event: LimitEvent, of client: SocketAddress) -> Bool {
    counters.limits.count(event)
    return shared.clientFaults.limits.note(event, of: client.host, now: loop.now)
  }

  /// Writes the summaries of folded lines. All workers share them, so the first one writes.
  func tellOfFolded(isLast: Bool = false) {
    guard loop.index == 0, let log = live?.generation.errorLog else { return }
    shared.faults.tick(now: loop.now, isLast: isLast)
    shared.clientFaults.tick(log, now: loop.now, isLast: isLast)
  }
}

extension ClientRefusal {
  /// The fields of a line about a client that was refused a request.
  func journalFields(of transaction: Transaction, _ reason: String) -> [JournalField: String] {
    var fields = journalFields(reason, transaction.facts.clientVerdict?.certificate)
    fields[.client] = transaction.clientAddress.host
    fields[.server] = transaction.session.loggedName(of: transaction.server)
    return fields
  }
}
