@testable import Loading
@testable import Review
import ConfigurationSupport
import Traffic
import Forward
import Features
import Crypto
import Observability
import TestSupport
import Testing

/// `check` refuses a server block that no client can get into; a start serves it, and says so at `crit`.
@Suite struct `Server blocks without a possible client` {
  /// The errors of `check`, and how many messages of a start are of what keeps every client out.
  private func judge(_ lines: String, _ prepare: (Scene, TestAuthority) throws -> Void) throws -> ([String], Int) {
    try withScene { scene in
      let authority = try scene.serverFiles()
      try prepare(scene, authority)
      let path = try scene.write(
        "test.conf",
        text: """
          events {} http { ssl_certificate server.pem; ssl_certificate_key server.key;
          server { listen 127.0.0.1:\(try scene.port()) ssl; \(lines) return 204; } }
          """)
      let (settings, found) = try Preparation.read(path, sharing: SharedState(features: Features.all))
      let start = try Preparation(
        settings, after: found, number: 1, logs: LogFiles(), sharing: SharedState(features: Features.all))
      let errors = Check(path).diagnostics.filter { $0.severity == .error }
      return (errors.map { $0.short(in: scene) }, start.diagnostics.count { $0.consequence == .lockout })
    }
  }

  /// Writes clients.pem.
  private func write(_ certificates: Certificate..., to scene: Scene) throws {
    try scene.write("clients.pem", text: certificates.map(\.pem).joined())
  }

  private static let verified = "ssl_client_certificate clients.pem; ssl_verify_client on;"

  @Test func `have a file of CAs that certify nobody`() throws {
    let leaf = try judge(Self.verified) { try write($1.client().certificate, to: $0) }
    #expect(
      leaf.0.count == 1 && leaf.1 == 1 && leaf.0[0].contains("is no CA: no certificate verifies by it"), "\(leaf)")
    let middle = try judge(Self.verified) { try write($1.intermediate.certificate, to: $0) }
    #expect(middle.0.count == 1 && middle.1 == 1 && middle.0[0].contains("holds no root"), "\(middle)")
    let server = try judge(Self.verified) { scene, _ in
      let alone = try CertificateBuilder(commonName: "alone", .leaf([.serverAuth])).selfSigned(key: .generate())
      try write(alone.certificate, to: scene)
    }
    #expect(server.0.count == 1 && server.1 == 1, "\(server)")
    let ended = try judge(Self.verified) { scene, _ in
      var builder = CertificateBuilder(commonName: "Old Root", .authority(pathLength: nil))
      builder.notAfter = builder.notBefore + 60
      builder.notBefore -= 86_400
      builder.notAfter -= 86_400
      try write(builder.selfSigned(key: .generate()).certificate, to: scene)
    }
    #expect(ended.0.count == 1 && ended.1 == 1 && ended.0[0].contains("expired on"), "\(ended)")
  }

  @Test func `have no list that lets a certificate pass`() throws {
    let lines = "\(Self.verified) ssl_crl clients.crl;"
    let ended = try judge(lines) { scene, authority in
      try write(authority.root.certificate, to: scene)
      var list = RevocationListBuilder(revoking: [])
      list.thisUpdate -= 864_000
      list.nextUpdate = list.thisUpdate + 86_400
      try scene.write("clients.crl", text: list.pem(signedBy: authority.root))
    }
    #expect(ended.0.count == 1 && ended.1 == 1 && ended.0[0].contains("ended on"), "\(ended)")
    let other = try judge(lines) { scene, authority in
      try write(authority.root.certificate, to: scene)
      try scene.write(
        "clients.crl", text: RevocationListBuilder(revoking: []).pem(signedBy: TestAuthority("Other").root))
    }
    #expect(other.0.count == 1 && other.1 == 1 && other.0[0].contains("is of a CA of"), "\(other)")
  }

  @Test func `that a CA without a list keeps its clients out is a warning`() throws {
    func warnings(_ lines: String, lists: Int) throws -> [String] {
      try withScene { scene in
        let authority = try scene.serverFiles(), next = try TestAuthority("Next")
        try write(authority.root.certificate, next.root.certificate, to: scene)
        let signers = [authority.root, next.root].prefix(lists)
        try scene.write(
          "clients.crl", text: signers.map { try RevocationListBuilder(revoking: []).pem(signedBy: $0) }.joined())
        let path = try scene.write(
          "test.conf",
          text: """
            events {} http { ssl_certificate server.pem; ssl_certificate_key server.key;
            server { listen 127.0.0.1:\(try scene.port()) ssl; \(lines) return 204; } }
            """)
        return Check(path).diagnostics.map(\.description).filter { $0.contains("no revocation list of that CA") }
      }
    }
    let lines = "\(Self.verified) ssl_crl clients.crl;"
    let one = try warnings(lines, lists: 1)
    #expect(one.count == 1 && one[0].contains("no client of CN=Next Root gets in"), "\(one)")
    #expect(try warnings(lines, lists: 2) == [])
    #expect(try warnings("\(lines) ssl_verify_report_only on;", lists: 1) == [])
  }

  @Test func `are not those that some client can get into`() throws {
    for (lines, certificates) in [
      // Who shows no certificate gets in.
      (Self.verified.replacing(" on;", with: " optional;"), { (authority: TestAuthority) in [try authority.client()] }),
      // Its own client.
      (Self.verified, { [try $0.client(.selfSigned)] }), (Self.verified, { [try $0.client(), $0.root] }),
      (Self.verified + " ssl_verify_report_only on;", { [$0.intermediate] }),
    ] as [(String, (TestAuthority) throws -> [CertifiedKey])] {
      let found = try judge(lines) { scene, authority in
        try scene.write("clients.pem", text: certificates(authority).map(\.certificate.pem).joined())
      }
      #expect(found.0.isEmpty && found.1 == 0, "\(lines): \(found)")
    }
    let oneOfTwo = try judge("\(Self.verified) ssl_crl clients.crl;") { scene, authority in
      let other = try TestAuthority("Other")
      try write(authority.root.certificate, other.root.certificate, to: scene)
      var list = RevocationListBuilder(revoking: [])
      let good = try list.pem(signedBy: other.root)
      list.thisUpdate -= 864_000
      list.nextUpdate = list.thisUpdate + 86_400
      try scene.write("clients.crl", text: good + list.pem(signedBy: authority.root))
    }
    #expect(oneOfTwo.0.isEmpty && oneOfTwo.1 == 0, "\(oneOfTwo)")
  }
}
