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

@Suite struct `Files of blocks with ssl_reload off` {
  private let configuration = """
    events {}
    http {
    server { listen 1 ssl; server_name off; ssl_reload off; ssl_certificate off.pem; ssl_certificate_key off.key;
      ssl_client_certificate ca.pem; ssl_verify_client on; ssl_crl off.crl;
      location / { proxy_pass https://127.0.0.1:2; proxy_ssl_trusted_certificate upca.pem; } }
    server { listen 1 ssl; server_name on; ssl_certificate on.pem; ssl_certificate_key on.key; return 204; }
    }
    """

  private func write(_ scene: Scene, _ authority: TestAuthority) throws -> (off: Certificate, on: Certificate) {
    let files = try ["off", "on"].map { try scene.identity($0, authority.server()).certified.certificate }
    try scene.write("off.crl", text: RevocationListBuilder(revoking: []).pem(signedBy: authority.root))
    try scene.anchors("upca", authority)
    return (files[0], files[1])
  }

  private func shown(_ material: KeyMaterial) -> [Certificate?] {
    material.servers.map { $0?.context.certificates.first }
  }

  @Test func `they keep what was loaded until the configuration is read again`() throws {
    try withScene { scene in
      let authority = try TestAuthority(), next = try TestAuthority()
      let old = try write(scene, authority)
      try scene.anchors("ca", authority)
      let http = try scene.settings(configuration).http
      let first = KeyMaterial(loading: http, sharing: SharedState(features: Features.all))
      #expect(first.diagnostics.isEmpty, "\(first.diagnostics)")

      let new = try write(scene, next)
      try scene.anchors("ca", next)
      var former = FormerMaterial(first)
      let second = KeyMaterial(loading: http, keeping: former, sharing: SharedState(features: Features.all))
      #expect(second.diagnostics.isEmpty, "\(second.diagnostics)")
      #expect(shown(second) == [old.off, new.on])
      #expect(second.servers[0]?.material.clientCAs == [authority.root.certificate])
      #expect(second.upstreams.values.first?.material.policy.anchors?.certificates == [authority.root.certificate])
      // Their lists' ends are watched on, and the change after keeps them too.
      #expect(second.revocations.values.joined().map(\.sha256) == first.revocations.values.joined().map(\.sha256))
      #expect(
        shown(KeyMaterial(loading: http, keeping: FormerMaterial(second), sharing: SharedState(features: Features.all)))
          == [old.off, new.on])

      former.forgetUnwatched()
      former.revocations = [:]
      let third = KeyMaterial(loading: http, keeping: former, sharing: SharedState(features: Features.all))
      #expect(third.diagnostics.isEmpty, "\(third.diagnostics)")
      #expect(shown(third) == [new.off, new.on])
    }
  }

  @Test(arguments: [("off", true), ("on", false)])
  func `accounts are kept only where no other block loads them anew`(other: String, isKept: Bool) throws {
    try withScene { scene in
      let authority = try TestAuthority()
      _ = try write(scene, authority)
      try scene.anchors("ca", authority)
      let pass = """
        location / { proxy_pass https://127.0.0.1:2; proxy_ssl_trusted_certificate upca.pem;
        proxy_auth basic; proxy_auth_user_file users; }
        """
      func server(_ name: String, _ reload: String) -> String {
        """
        server { listen 1 ssl; server_name \(name); ssl_reload \(reload); ssl_certificate \(name).pem;
        ssl_certificate_key \(name).key; ssl_client_certificate ca.pem; ssl_verify_client on; \(pass) }
        """
      }
      let http = try scene.settings("events {} http { \(server("off", "off")) \(server("on", other)) }").http
      try scene.write("users", text: "* a:secret\n")
      let first = KeyMaterial(loading: http, sharing: SharedState(features: Features.all))
      try scene.write("users", text: "* b:secret\n")
      let next = KeyMaterial(
        loading: http, keeping: FormerMaterial(first), sharing: SharedState(features: Features.all))
      let files = [first, next].map { $0.parts[UpstreamUsers.self].files.values.map { ObjectIdentifier($0) } }
      #expect(files.allSatisfy { $0.count == 1 } && next.stale.isEmpty, "\(first.diagnostics + next.diagnostics)")
      #expect((files[0] == files[1]) == isKept)
    }
  }

  @Test func `one that is broken stops no change of another`() throws {
    try withScene { scene in
      let authority = try TestAuthority()
      let old = try write(scene, authority)
      try scene.anchors("ca", authority)
      let http = try scene.settings(configuration).http
      let former = FormerMaterial(KeyMaterial(loading: http, sharing: SharedState(features: Features.all)))
      let new = try scene.identity("on", authority.server()).certified.certificate
      for name in ["off.pem", "off.crl", "upca.pem"] { try scene.write(name, text: "half") }
      let next = KeyMaterial(loading: http, keeping: former, sharing: SharedState(features: Features.all))
      #expect(next.diagnostics.isEmpty, "\(next.diagnostics)")
      #expect(shown(next) == [old.off, new])
    }
  }
}
