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

@Suite struct KeyMaterialTests {
  private func load(_ scene: Scene, _ http: String) throws -> KeyMaterial {
    KeyMaterial(
      loading: try scene.settings("events {}\nhttp {\n\(http)\n}").http, sharing: SharedState(features: Features.all))
  }

  @Test func `every server and location has what its settings name`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      _ = try scene.identity("client", authority.client())
      let material = try load(
        scene,
        """
        server { listen 1 ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate ca.pem; ssl_verify_client on;
        location / { proxy_pass https://127.0.0.1:2; proxy_ssl_pin server.pem; proxy_ssl_trusted_certificate ca.pem;
        proxy_ssl_certificate client.pem; proxy_ssl_certificate_key client.key; } }
        server { listen 2; return 204; }
        """)
      #expect(material.diagnostics.isEmpty)
      #expect(material.servers.count == 2)
      #expect(material.servers[0]?.material.clientCAs == [authority.root.certificate])
      #expect(material.servers[1] == nil)
      let upstream = try #require(material.upstreams.values.first?.material)
      #expect(material.upstreams.count == 1)
      #expect(upstream.policy.anchors?.certificates == [authority.root.certificate])
      #expect(upstream.policy.pins?.pins.count == 1)
      #expect(upstream.identity?.certificate.subject.rfc2253.contains("CN=alice") == true)
    }
  }

  @Test func `a leaf among the CAs is warned of`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      _ = try scene.identity("client", authority.client())
      let material = try load(
        scene,
        """
        server { listen 1 ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate client.pem; ssl_verify_client on;
        location / { proxy_pass https://127.0.0.1:2; proxy_ssl_trusted_certificate server.pem; } }
        server { listen 2 ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate ca.pem; ssl_verify_client on; return 204; }
        """)
      let messages = material.diagnostics.map(\.message)
      #expect(material.diagnostics.allSatisfy { $0.severity == .warning } && messages.count == 2, "\(messages)")
      #expect(messages.first?.contains("client.pem\" holds the certificate of CN=alice") == true, "\(messages)")
      #expect(messages.last?.contains("server.pem\" holds") == true, "\(messages)")
      #expect(material.diagnostics.allSatisfy { $0.message.contains("is no CA: no certificate verifies by it") })
    }
  }

  @Test func `a leaf beside its CA is in order, and intermediate CAs without a root are warned of`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      let leaf = try authority.client(.viaIntermediate).certificate.pem
      let (intermediate, root) = (authority.intermediate.certificate.pem, authority.root.certificate.pem)
      try scene.write("chain.pem", text: leaf + intermediate)
      try scene.write("whole.pem", text: leaf + intermediate + root)
      func messages(_ verification: String, _ upstream: String = "ca.pem") throws -> [String] {
        let material = try load(
          scene,
          """
          server { listen 1 ssl; ssl_certificate server.pem; ssl_certificate_key server.key; \(verification)
          location / { proxy_pass https://127.0.0.1:2; proxy_ssl_trusted_certificate \(upstream); } }
          """)
        #expect(material.diagnostics.allSatisfy { $0.severity == .warning })
        return material.diagnostics.map { "\($0.message) | \($0.hint ?? "")" }
      }
      #expect(try messages("ssl_client_certificate whole.pem; ssl_verify_client on;", "whole.pem").isEmpty)
      #expect(
        try messages(
          "ssl_client_certificate chain.pem; ssl_trusted_certificate ca.pem; ssl_verify_client optional;"
        ).isEmpty)
      #expect(try messages("ssl_client_certificate chain.pem; ssl_verify_client optional_no_ca;").isEmpty)
      for found in [
        try messages("ssl_client_certificate chain.pem; ssl_verify_client on;"), try messages("", "chain.pem"),
      ] {
        #expect(found.count == 1, "\(found)")
        #expect(
          found.first?.hasSuffix(
            "chain.pem\" holds no root, only intermediate CAs: no certificate verifies by them | "
              + "add the root: the certificate of CN=Test Root") == true, "\(found)")
      }
    }
  }

  @Test func `all that is wrong is told at once, each at its place`() throws {
    try withScene { scene in
      try scene.serverFiles()
      _ = try scene.identity("other", TestAuthority().server())
      try scene.write("empty.pem", text: "")
      let material = try load(
        scene,
        """
        server { listen 1 ssl;
        ssl_certificate missing.pem; ssl_certificate_key server.key; }
        server { listen 2 ssl;
        ssl_certificate server.pem;
        ssl_certificate_key other.key;
        ssl_client_certificate empty.pem; ssl_verify_client on;
        location / { proxy_pass https://127.0.0.1:2;
        proxy_ssl_pin nowhere.pem; } }
        """)
      let told = material.diagnostics.map { $0.short(in: scene) }
      try #require(told.count == 4, "\(told)")
      #expect(told[0].hasPrefix("4: error: \"missing.pem\": cannot be opened: No such file or directory"))
      #expect(told[1].hasPrefix("7: error: \"other.key\": the private key does not belong to the certificate"))
      #expect(told[2].hasPrefix("8: error: \"empty.pem\": empty"))
      #expect(told[3].hasPrefix("10: error: \"nowhere.pem\": cannot be opened"))
      #expect(material.servers.allSatisfy { $0 == nil })
      #expect(material.upstreams.isEmpty)
    }
  }

  @Test func `what several servers inherit is loaded once and told once`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let material = try load(
        scene,
        """
        ssl_certificate missing.pem; ssl_certificate_key server.key;
        server { listen 1 ssl; server_name a; }
        server { listen 1 ssl; server_name b; }
        """)
      #expect(material.diagnostics.count == 1)
    }
  }

  @Test func `a PKCS#12 opens with the password file, on both sides and as a pin`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      try scene.pkcs12("server", authority.server())
      try scene.pkcs12("client", authority.client())
      try scene.write("words", text: "wrong\n\(IdentityFiles.password)\n")
      let material = try load(
        scene,
        """
        server { listen 1 ssl; ssl_certificate server.p12; ssl_password_file words;
        location / { proxy_pass https://127.0.0.1:2; proxy_ssl_verify off; proxy_ssl_pin server.p12;
        proxy_ssl_certificate client.p12; proxy_ssl_password_file words; } }
        """)
      #expect(material.diagnostics.isEmpty, "\(material.diagnostics)")
      #expect(material.upstreams.values.first?.material.identity != nil)
    }
  }

  @Test func `a pin file must fit the mode, and a chain in it is warned of`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      let leaf = try authority.server()
      let deep = try CertificateBuilder(commonName: "deep", .leaf([.serverAuth]))
        .signed(by: authority.intermediate, key: .generate())
      try scene.write("leaf.pem", text: leaf.certificate.pem)
      try scene.write("chain.pem", text: deep.certificate.pem + authority.intermediate.certificate.pem)
      try scene.write("key.der", leaf.certificate.publicKey.subjectPublicKeyInfo)
      try scene.makeFolder("none")
      let material = try load(
        scene,
        """
        server { listen 1; proxy_ssl_pinning certificate;
        location /a { proxy_pass https://127.0.0.1:2; proxy_ssl_pin
        key.der
        none; }
        location /b { proxy_pass https://127.0.0.1:2; proxy_ssl_pin
        chain.pem; }
        location /c { proxy_pass https://127.0.0.1:2; proxy_ssl_pinning public_key; proxy_ssl_pin chain.pem key.der; } }
        """)
      let told = material.diagnostics.map { $0.short(in: scene) }
      try #require(told.count == 3, "\(told)")
      #expect(told[0].hasPrefix("5: error: pin \"key.der\": sha256//"))
      #expect(told[0].hasSuffix(" is not of the kind that \"proxy_ssl_pinning certificate\" compares"))
      #expect(told[1].hasPrefix("6: error: \"none\": an empty directory"))
      #expect(
        told[2].hasPrefix(
          "8: warning: pin \"chain.pem\" holds a certificate and its issuer: whatever CN=Test Intermediate"))
      #expect(material.upstreams.count == 2)
    }
  }

  @Test func `an expired certificate is a warning, for a clock may be wrong`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      _ = try scene.identity("old", authority.client(.expired))
      let material = try load(
        scene, "server { listen 1 ssl; ssl_certificate old.pem; ssl_certificate_key old.key; return 204; }")
      #expect(material.diagnostics.map(\.severity) == [.warning])
      #expect(material.servers.first.flatMap { $0 } != nil)
    }
  }

  @Test func `upstream settings that differ have contexts of their own, inherited ones share one`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let material = try load(
        scene,
        """
        server { listen 1; proxy_ssl_trusted_certificate ca.pem;
        location /a { proxy_pass https://127.0.0.1:2; }
        location /b { proxy_pass https://127.0.0.1:2; proxy_ssl_verify_depth 3; } }
        """)
      #expect(material.diagnostics.isEmpty)
      #expect(material.upstreams.count == 2)
    }
  }

  @Test func `locations that say the same of TLS, each for itself, share one context`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      _ = try scene.identity("client", authority.client())
      let says = """
        proxy_ssl_trusted_certificate ca.pem; proxy_ssl_pin server.pem; proxy_ssl_conf_command Options Bugs;
        proxy_ssl_certificate client.pem; proxy_ssl_certificate_key client.key;
        """
      let material = try load(
        scene,
        """
        server { listen 1;
        location /a { proxy_pass https://127.0.0.1:2; \(says) }
        location /b { proxy_pass https://127.0.0.1:3; \(says) }
        location /c { proxy_pass https://127.0.0.1:3; \(says) proxy_ssl_pin ca.pem; } }
        """)
      #expect(material.diagnostics.isEmpty, "\(material.diagnostics)")
      #expect(material.upstreams.count == 2)
    }
  }

  @Test func `a file that two locations name wrongly is told at both`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let material = try load(
        scene,
        """
        server { listen 1;
        location /a { proxy_pass https://127.0.0.1:2; proxy_ssl_trusted_certificate none.pem; }
        location /b { proxy_pass https://127.0.0.1:2; proxy_ssl_trusted_certificate none.pem; } }
        """)
      #expect(material.diagnostics.map { $0.short(in: scene).prefix(8) } == ["4: error", "5: error"])
    }
  }
}
