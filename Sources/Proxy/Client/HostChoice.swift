import Bytes
import HTTP
import Patterns

/// Which server block a Host means, on one connection: a client asks for the same one again and again.
struct HostChoice {
  fileprivate var lastHost: [UInt8] = []
  fileprivate var lastServer: LiveServer?
}

extension ClientSession {
  /// The server block for a Host; nil when a regular expression could not decide. Fills the exchange's captures.
  func server(for exchange: Exchange) -> LiveServer? {
    if servers.hasOnlyOne { return servers.fallback }
    let host = exchange.head.bytes.readable[exchange.head.host]
    if let lastServer = hostChoice.lastServer, host.equals(hostChoice.lastHost) { return lastServer }
    let name = host.map { ASCII.lower($0) }
    switch servers.find(name) {
    case .undecided: return nil
    case .default:
      // Without Host (HTTP/1.0) the server of the SNI is meant, as in nginx.
      return host.isEmpty ? firstServer : servers.fallback
    case .found(let found):
      if found.captures.count > 0 {
        exchange.take(found.captures, of: name, slots: found.slots)
      } else {
        hostChoice.lastHost = Array(host)
        hostChoice.lastServer = found.server
      }
      return found.server
    }
  }
}
