import Bytes
import Forward
import HTTP
import Traffic
import Transport

/// What a location has of `RealIP` in one worker, where the names are addresses.
final class ClientSearch: ClientAddressStep {
  private let settings: RealIP
  private let trusted: [AccessRule.Source]

  /// `resolved`: the addresses of the names in `settings`.
  init(_ settings: RealIP, resolved: [String: [SocketAddress]]) {
    self.settings = settings
    trusted =
      settings.trusted
      + settings.hosts.flatMap { resolved[$0.name] ?? [] }.compactMap { address in
        switch address.unmapped {
        case .ipv4(let address, _): .ipv4(network: address, mask: .max)
        case .ipv6(let high, let low, _): .ipv6(high: high, low: low, prefixLength: 128)
        case .unix, .name: nil
        }
      }
  }

  /// Settles the client's address of an exchange, unless an outer level has done so.
  override func run(_ exchange: Exchange) {
    guard exchange.variables.client == nil else { return }
    var walk = ForwardedWalk(from: exchange.facts.peer, trusted: trusted, isRecursive: settings.isRecursive)
    switch settings.source {
    case .forwardedFor:
      let bytes = exchange.head.bytes.readable
      for field in exchange.head.fields.reversed() where field.id == .xForwardedFor {
        if !walk.take(bytes[field.value]) { break }
      }
    case .field(let name):
      let bytes = exchange.head.bytes.readable
      let line = exchange.head.fields.first { field in
        let sent = bytes[field.name]
        return sent.count == name.count && zip(sent, name).allSatisfy { ASCII.lower($0) == $1 }
      }
      if let line { _ = walk.take(bytes[line.value]) }
    case .proxyProtocol: takeHeader(of: exchange)
    }
    if walk.hasMoved { exchange.setClient(walk.address) }
  }

  override func run(_ session: StreamSession) { takeHeader(of: session) }

  private func takeHeader(of transaction: Transaction) {
    let walk = ForwardedWalk(from: transaction.facts.peer, trusted: trusted, isRecursive: settings.isRecursive)
    if let header = transaction.facts.proxyHeader, walk.isTrusted { transaction.setClient(header.source) }
  }
}

/// The location's own `set_real_ip_from`; that of the server block counts before any phase.
final class RealIPStep: PhaseStep {
  private let search: ClientSearch

  init(_ search: ClientSearch) { self.search = search }

  override var words: String { RealIP.from }

  override func run(_ exchange: Exchange) -> StepOutcome {
    search.run(exchange)
    return .next
  }
}
