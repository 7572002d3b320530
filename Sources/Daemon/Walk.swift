import Proxy
import TLS
import UpstreamAuth

extension LocationSettings {
  var upstreamAuth: UpstreamAuthSettings? {
    self[UpstreamPass.self]?.authentication
  }

  var upstreamTLS: UpstreamTLSSettings? {
    self[UpstreamPass.self]?.tls
  }
}
