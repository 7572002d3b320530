import Proxy
import TLS
import UpstreamAuth

extension HTTPSettings {
  /// Every location, including nested ones, and what is outside locations, each with its server's index, in file order.
  var everyLocation: [(server: Int, settings: LocationSettings)] {
    var every: [(server: Int, settings: LocationSettings)] = []
    for index in servers.indices { servers[index].root.visitNested { every.append((index, $0)) } }
    return every
  }
}

extension LocationSettings {
  var upstreamAuth: UpstreamAuthSettings? {
    self[UpstreamPass.self]?.authentication
  }

  var upstreamTLS: UpstreamTLSSettings? {
    self[UpstreamPass.self]?.tls
  }
}
