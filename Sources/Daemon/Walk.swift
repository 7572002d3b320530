import Proxy
import TLS
import UpstreamAuth

extension LocationSettings {
  var upstreamAuth: UpstreamAuthSettings? {
    self[UpstreamPass.self]?[UpstreamAuthSettings.self]
  }

  var upstreamTLS: UpstreamTLSSettings? {
    self[UpstreamPass.self]?.trust.tls
  }
}
