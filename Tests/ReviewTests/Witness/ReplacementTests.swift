import Configuration
import ConfigurationSupport
import Features
import Loading
import Observability
import TLS
import TestSupport
import Testing
import Traffic

/// What a trial may put in the place of that by which clients are judged.
@Suite struct `A replacement of trust` {
  @Test func `that can't be made is an error of its server block, which then serves nobody`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let settings = try scene.settings(
        """
        events {} http { server { listen 127.0.0.1:8443 ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
          ssl_client_certificate ca.pem; ssl_verify_client on; return 200; } }
        """)
      let material = KeyMaterial(loading: settings.http, sharing: SharedState(features: Features.all)) {
        (_) throws(TLSSettingsError) in throw TLSSettingsError("no stand-in")
      }
      #expect(material.servers.count == 1 && material.servers[0] == nil)
      #expect(material.diagnostics.contains { $0.severity == .error && $0.message.contains("no stand-in") })
    }
  }
}
