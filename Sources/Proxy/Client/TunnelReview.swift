import Bytes
import HTTP
import Patterns
import TLS

/// Judges the tunnels of an earlier generation by the access rules of the new one. A tunnel can last for days, so a client
/// that a rule denies since then must not keep it.
enum TunnelReview {
  /// Why the new generation would deny the request that became this tunnel, by its Host and its path after rewriting; nil if
  /// it would not. What can't be decided is a denial.
  static func denial(of exchange: Exchange, by servers: VirtualServers) -> String? {
    guard let server = server(of: exchange, in: servers) else { return "its server block could not be decided" }
    guard server.settings.tls?.rejection != .reportOnly else { return nil }
    let scratch = exchange.worker.patternScratch
    var captures = Captures()
    let location: LiveLocation
    switch server.locations.find(exchange.target.uri.readable, captures: &captures, scratch: scratch) {
    case .location(let found), .pattern(let found, _, _), .redirect(let found): location = found
    case .none: location = server.root
    case .undecided: return "its location could not be decided"
    }
    return AccessRules.denial(of: exchange.facts, at: location, scratch: scratch)
  }

  private static func server(of exchange: Exchange, in servers: VirtualServers) -> LiveServer? {
    let host = exchange.head.bytes.readable[exchange.head.host].map { ASCII.lower($0) }
    return switch servers.find(host) {
    case .found(let found): found.server
    case .default: servers.fallback
    case .undecided: nil
    }
  }
}
