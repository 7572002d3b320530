import Proxy
import TLS
import UpstreamAuth

extension HTTPSettings {
  /// Every location, including nested ones, and what is outside locations, each with its server's index, in file order.
  var everyLocation: [(server: Int, settings: LocationSettings)] {
    servers.indices.flatMap { index in servers[index].root.withNested.map { (index, $0) } }
  }
}

extension LocationSettings {
  var withNested: [LocationSettings] { [self] + (locations + conditional).flatMap(\.withNested) }

  var upstreamAuth: UpstreamAuthSettings? {
    if case .proxy(let pass) = action { pass.authentication } else { nil }
  }

  var upstreamTLS: UpstreamTLSSettings? {
    if case .proxy(let pass) = action { pass.tls } else { nil }
  }
}
