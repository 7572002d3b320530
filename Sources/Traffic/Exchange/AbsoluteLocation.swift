import Bytes
import HTTP
import Transport

/// The address that a redirect names: `absolute_redirect`, `server_name_in_redirect`, `port_in_redirect`.
package enum AbsoluteLocation {
  /// Makes an address out of a path. A target that is no path stays as it is.
  package static func address(_ target: [UInt8], _ exchange: Exchange) -> [UInt8] {
    let rules = exchange.location.settings.redirects
    guard target.first == 0x2F, rules.absolute else { return target }
    let isTLS = exchange.facts.isTLS, local = exchange.facts.local
    var url = Array((isTLS ? "https://" : "http://").utf8)
    let named = exchange.server.settings.primaryName
    if rules.serverNameIn && !named.isEmpty {
      url += Array(named.utf8)
    } else if !exchange.head.host.isEmpty {
      url += Array(exchange.head.bytes.readable[exchange.head.host])
    } else {
      url += Array((local?.host ?? named).utf8)
    }
    if rules.portIn, let port = local?.port, port != (isTLS ? 443 : 80) { url += Array(":\(port)".utf8) }
    return url + target
  }
}
