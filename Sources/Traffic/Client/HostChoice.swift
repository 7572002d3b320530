import Bytes
import HTTP
import Patterns

/// The server block of a connection's last Host, because a client mostly sends the same Host again.
struct HostChoice {
  fileprivate var lastHost: [UInt8] = []
  fileprivate var lastServer: LiveServer?
}

extension ClientSession {
  /// The server block for a Host; nil if a regular expression reached its limit. Fills the exchange's captures.
  package func server(for exchange: Exchange) -> LiveServer? {
    if servers.hasOnlyOne { return servers.fallback }
    let host = exchange.head.bytes.readable[exchange.head.host]
    if let lastServer = hostChoice.lastServer, host.equals(hostChoice.lastHost) { return lastServer }
    let name = host.map { ASCII.lower($0) }
    switch servers.find(name) {
    case .undecided: return nil
    case .default:
      // A request without Host (HTTP/1.0) goes to the server of the SNI, as in nginx.
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
