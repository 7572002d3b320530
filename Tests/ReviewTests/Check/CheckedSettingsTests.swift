import ConfigurationSupport
import Crypto
import Glibc
@testable import Review
import TestSupport
import Testing

/// Files and settings that no peer has to show: what `check` says of them.
@Suite struct `Settings that are checked` {
  private func server(_ lines: String, cast: String = Cast.tls) -> String {
    configuration(
      "server { listen 127.0.0.1:1 ssl; server_name localhost; \(cast) \(lines) location / { return 200; } }")
  }

  private static let pair = "ssl_certificate server.pem; ssl_certificate_key server.key;"

  // MARK: Clients

  @Test func `ssl_client_purpose any for anybody is refused at the start, with the reason`() throws {
    try withScene { scene in
      _ = try Cast(scene)
      let open = try scene.check(server("ssl_client_purpose any;"))
      #expect(!open.isValid)
      #expect(open.text.contains("every certificate of its CAs would get in, those of every web server too"))
      let closed = try scene.check(server("ssl_client_purpose any; ssl_client_allow cn=a;"))
      #expect(closed.isValid)
      #expect(
        closed.text.contains(
          "purpose         NOT judged: a certificate need not be one for clients (ssl_client_purpose any)"))
    }
  }

  private func pinned(_ lines: String) -> String { server("ssl_verify_client on; \(lines)", cast: Self.pair) }

  @Test func `no start without a pin that loads`() throws {
    try withScene { scene in
      _ = try Cast(scene)
      try scene.write("empty.pem", text: "")
      mkdir(scene.path("none"), 0o755)
      for word in ["empty.pem", "missing.pem", "server.key", "none", "sha256//AAAA", "sha1/AAAA"] {
        let check = try scene.check(pinned("ssl_client_pin \(word);"))
        #expect(!check.isValid && check.text.contains(word), "\(word): \(check)")
      }
    }
  }

  @Test func `what a pin alone does not give is told, and explanation and difference go by pins`() throws {
    try withScene { scene in
      _ = try Cast(scene)
      func selfSigned(_ name: String) throws -> (file: String, pin: String) {
        let files = try scene.identity(name, TestAuthority().client(.selfSigned, commonName: "admin"))
        return (files.certificate, Pin.spelling(publicKeyDigest: files.certified.certificate.spkiSHA256))
      }
      let device = try selfSigned("device"), other = try selfSigned("other")
      let alone = try scene.check(pinned("ssl_client_pin \(device.pin) other.pem;"))
      #expect(alone.isValid)
      for line in [
        "clients         only with a pinned certificate, of any CA or none (ssl_verify_client on)",
        "pinned          the client's own key, which the handshake proves (ssl_client_pin)",
        "pin             \(device.pin)", "pin             \(other.pin)",
        "NOT judged      validity, revocation and names: a client gets in until its pin is removed",
      ] { #expect(alone.text.contains(line), "\(line) in \(alone)") }
      #expect(!alone.text.contains("depth  "))
      let files = try scene.check(pinned("ssl_client_pinning certificate; ssl_client_pin device.pem;"))
      #expect(
        files.text.contains(
          "NOT judged      revocation: a client gets in until its certificate ends or its pin is removed"))
      let beside = try scene.check(pinned("ssl_client_certificate ca.pem; ssl_client_pin \(device.pin);"))
      #expect(beside.text.contains("pinned          the client's key too;") && !beside.text.contains("NOT judged"))

      let old = try scene.write("old.conf", text: pinned("ssl_client_pin \(device.pin);"))
      let new = try scene.write("new.conf", text: pinned("ssl_client_pin \(device.pin) \(other.pin);"))
      let difference = try TrustDifference(from: old, to: new).lines
      #expect(difference.contains { $0.contains("clients with the pin \(other.pin) get in") }, "\(difference)")
      for (who, words) in [
        (device, "\(device.pin): pinned (ssl_client_pin); its names count for nothing"),
        (other, "does not verify, certificate matches no pin"),
      ] {
        let explained = try Explanation(
          of: "https://localhost:1/", certificate: who.file, from: nil, fields: [], configuration: old
        ).lines
        #expect(explained.contains { $0.contains(words) }, "\(explained)")
      }
    }
  }

  // MARK: TLS

  /// OpenSSL speaks of its functions and structures. Whoever reads the report need not know them.
  @Test func `what is wrong with keys, ciphers and groups is said in plain words`() throws {
    let raw = ["nested asn1", "No supported data", "SSL routines", "passed invalid argument", "Input type"]
    try withScene { scene in
      let cast = try Cast(scene)
      _ = try scene.identity("weak", cast.authority.server(key: .generate(.rsa(bits: 1024))))
      try scene.write("cut.key", text: "-----BEGIN PRIVATE KEY-----\nMAAA\n-----END PRIVATE KEY-----\n")
      for (lines, words) in [
        (
          "ssl_certificate weak.pem; ssl_certificate_key weak.key;",
          "OpenSSL refuses the certificate: the certificate's key is too short for OpenSSL's security level; OpenSSL: ee key too small"
        ),
        (
          "ssl_certificate server.pem; ssl_certificate_key cut.key;",
          "not a DER private key (its bytes are damaged, or hold something else"
        ),
        ("\(Self.pair) ssl_ciphers NOPE;", "no cipher of \"NOPE\" is known to this OpenSSL"),
        (
          "\(Self.pair) ssl_ecdh_curve X25519:nope;",
          "ssl_ecdh_curve \"X25519:nope\": this OpenSSL has no group \"nope\""
        ),
      ] {
        let told = try scene.check(server(lines, cast: ""))
        #expect(told.text.contains(words), "\(words): \(told)")
        for word in raw { #expect(!told.text.contains(word), "\(word): \(told)") }
      }
    }
  }

  @Test func `what makes the policy worth less is named`() throws {
    try withScene { scene in
      _ = try Cast(scene)
      func words(_ lines: String) throws -> String {
        let check = try scene.check(server(lines, cast: Self.pair))
        #expect(check.isValid, "\(check)")
        return check.text
      }
      let sound = try words("ssl_ecdh_curve X25519:P-256; ssl_ciphers HIGH:!aNULL:!MD5;")
      for words in ["are allowed", "may be negotiated", "may cost", "this group"] { #expect(!sound.contains(words)) }
      let groups = try words("ssl_ecdh_curve X25519:ffdhe2048:X448:P-521:prime192v1;")
      #expect(groups.contains("ffdhe2048: a client's first message may cost the server"))
      #expect(groups.contains("X448 and P-521: ") && groups.contains("prime192v1: this group is weaker"))
      let command = try words("ssl_conf_command Groups ffdhe3072:X25519;")
      #expect(command.contains("ffdhe3072: a client's first message"))
      let suites = try words("ssl_ciphers ALL:eNULL:@SECLEVEL=0;")
      #expect(suites.contains("suites without certificates (aNULL) are allowed"))
      #expect(suites.contains("suites without encryption (eNULL) are allowed"))
      #expect(try words("ssl_ciphers HIGH:!aNULL:RC4;").contains("RC4 is allowed"))
      let versions = try words("ssl_protocols TLSv1 TLSv1.1 TLSv1.2;")
      #expect(versions.contains("TLSv1 and TLSv1.1 may be negotiated") && versions.contains("worth no more than these"))
      #expect(!Check(scene.path("check.conf"), .files).report(isStrict: true).isValid)
    }
  }

  @Test func `LOGJAM: parameters of DH that are too small, or none, are refused at the start`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let cast = try Cast(scene)
    _ = try scene.identity("server", cast.authority.server(key: .generate(.rsa(bits: 2048))))
    try await scene.succeed("openssl", "dhparam", "-out", "dh.pem", "512")
    let small = try scene.check(server("ssl_dhparam dh.pem;"))
    #expect(!small.isValid && small.text.contains("DH parameters of 512 bits, fewer than 2048"))
    try scene.write("dh.pem", text: scene.text("server.pem"))
    #expect(try scene.check(server("ssl_dhparam dh.pem;")).text.contains("no PEM of DH parameters"))
  }

  @Test func `where ssl_certificate_compression has no effect is said`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    _ = try Cast(scene)
    func told(_ lines: String) throws -> String {
      try scene.check(server("ssl_certificate_compression on; \(lines)")).text
    }
    #expect(try told("ssl_protocols TLSv1.2;").contains("has no effect: TLSv1.3 is not among ssl_protocols"))
    #expect(try told("ssl_stapling on;").contains("has no effect: with ssl_stapling, each certificate is sent with"))
    let help = try await scene.run("openssl", ["s_client", "-help"]).errors
    let isMissing = try told("").contains("has no effect: this OpenSSL doesn't compress certificates")
    #expect(isMissing != help.contains("-no_rx_cert_comp"))
  }

  @Test func `lists that OpenSSL can't use are refused by name`() throws {
    try withScene { scene in
      let cast = try Cast(scene)
      for (scope, words) in [
        ("onlysomereasons:keyCompromise", "for some reasons only"), ("indirectCRL:TRUE", "indirect"),
        ("onlyAA:TRUE", "attribute certificates"), ("onlyuser:TRUE,onlyCA:TRUE", "contradicts itself"),
      ] {
        var list = RevocationListBuilder(revoking: [])
        list.scope = scope
        try scene.write("crl.pem", text: list.pem(signedBy: cast.authority.root))
        let check = try scene.check(server("ssl_crl crl.pem;"))
        #expect(!check.isValid && check.text.contains(words), "\(scope)")
      }
    }
  }
}
