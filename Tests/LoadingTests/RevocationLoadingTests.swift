@testable import Loading
import ConfigurationSupport
import Traffic
import Forward
import Features
import Configuration
import Crypto
import Observability
import TLS
import TestSupport
import Testing

@Suite struct `Revocation lists and whose they are` {
  private func write(_ scene: Scene, _ file: String, _ signers: CertifiedKey..., age: Int64 = 3600) throws {
    let texts = try signers.map { signer in
      var builder = RevocationListBuilder(revoking: [])
      builder.thisUpdate -= age
      return try builder.pem(signedBy: signer)
    }
    try scene.write(file, text: texts.joined())
  }

  private func http(_ scene: Scene, _ servers: String) throws -> HTTPSettings {
    try scene.settings(
      """
      events {}
      http { ssl_certificate server.pem; ssl_certificate_key server.key; ssl_client_certificate ca.pem;
      ssl_verify_client on;
      \(servers)
      }
      """
    ).http
  }

  @Test func `one that the CA of its name has not signed is refused towards clients and upstreams`() throws {
    try withScene { scene in
      try scene.serverFiles()
      try write(scene, "forged.crl", TestAuthority().root)
      let material = KeyMaterial(
        loading: try http(
          scene,
          """
          server { listen 1 ssl;
          ssl_crl forged.crl; return 204; }
          server { listen 2; proxy_ssl_pinning certificate;
          proxy_ssl_crl forged.crl;
          location /a { proxy_pass https://127.0.0.1:2; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_pin server.pem; }
          location /b { proxy_pass https://127.0.0.1:2; proxy_ssl_pin ca.pem; } }
          """), sharing: SharedState(features: Features.all))
      let told = material.diagnostics.map { $0.short(in: scene) }
      let fault = "\"forged.crl\": the revocation list of CN=Test Root is not signed by the trusted CA of that name"
      try #require(told.count == 2, "\(told)")
      #expect(told[0].hasPrefix("5: error: \(fault)"))
      #expect(told[1].hasPrefix("7: error: \(fault)"))
      #expect(material.servers[0] == nil && material.upstreams.isEmpty)
    }
  }

  @Test func `the CA's own is taken, and that of a CA which is not at hand`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      // Of the intermediate's name, but only its clients could say whether it is its own.
      try write(scene, "both.crl", authority.root, TestAuthority().intermediate)
      let material = KeyMaterial(
        loading: try http(
          scene,
          """
          server { listen 1 ssl; ssl_crl both.crl; return 204; }
          server { listen 2; proxy_ssl_trust_system on; proxy_ssl_crl both.crl;
          location / { proxy_pass https://127.0.0.1:2; } }
          """), sharing: SharedState(features: Features.all))
      #expect(material.diagnostics.isEmpty, "\(material.diagnostics)")
      #expect(material.servers[0]?.material.revocations.count == 2)
      #expect(material.upstreams.values.first?.material.policy.anchors?.revocations.count == 2)
    }
  }

  @Test func `the list of a CA's former key does not stay beside that of its new one`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles(), next = try TestAuthority()
      try write(scene, "ca.crl", authority.root)
      let http = try http(scene, "server { listen 1 ssl; ssl_crl ca.crl; return 204; }")
      let former = FormerMaterial(KeyMaterial(loading: http, sharing: SharedState(features: Features.all)))
      // Older than the one in use, which would stay if it were the same CA's.
      try write(scene, "ca.crl", next.root, age: 7200)
      try scene.anchors("ca", next)
      let material = KeyMaterial(loading: http, keeping: former, sharing: SharedState(features: Features.all))
      #expect(material.diagnostics.allSatisfy { $0.severity != .error }, "\(material.diagnostics)")
      let lists = material.servers[0]?.material.revocations ?? []
      #expect(lists.count == 1 && lists.allSatisfy { !$0.isDisowned(by: [next.root.certificate]) })
    }
  }
}
