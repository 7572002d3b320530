import Forward
import TLS
import Traffic
import UpstreamAuth

extension LocationSettings {
  var upstreamAuth: UpstreamAuthSettings? {
    self[UpstreamPass.self]?[UpstreamAuthSettings.self]
  }

  var upstreamTLS: UpstreamTLSSettings? {
    self[UpstreamPass.self]?.trust.tls
  }
}
