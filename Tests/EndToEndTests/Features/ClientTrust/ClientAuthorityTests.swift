import Crypto
import TestSupport
import Testing

/// `ssl_client_certificate`: files that load, and of which `check` says what they mean for clients.
@Suite(.staged) struct `CAs of clients` {
  private func server(_ port: UInt16, _ file: String = "many.pem", in directive: String = "ssl_client_certificate")
    -> String
  {
    configuration(
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; ssl_certificate server.pem;
        ssl_certificate_key server.key; \(directive) \(file); ssl_verify_client on; location / { return 200; } }
      """)
  }

  /// Writes many.pem: that of `cast`, and `count` others with long names. Returns the bytes that their names take.
  private func write(_ scene: Scene, _ cast: Cast, others count: Int) throws -> Int {
    let key = try PrivateKey.generate()
    let all =
      try [cast.authority.root.certificate]
      + (0..<count).map { number in
        var builder = CertificateBuilder(
          commonName: "Authority \(number) " + String(repeating: "c", count: 40), .authority(pathLength: nil))
        builder.subject.append((.organization, String(repeating: "o", count: 64)))
        return try builder.selfSigned(key: key).certificate
      }
    try scene.write("many.pem", text: all.map(\.pem).joined())
    return all.reduce(0) { $0 + 2 + $1.subjectOctets.count }
  }

  @Test func `names that no handshake has room for are an error, and many of them a warning`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    #expect(try write(scene, cast, others: 100) < 16_384)
    #expect(try !scene.check(server(1)).contains("bytes of each handshake"))
    let port = try scene.port()
    #expect(try (60_000..<65_200).contains(write(scene, cast, others: 430)))
    let many = try scene.check(server(1))
    #expect(many.isValid && many.contains("bytes of each handshake; clients of Java refuse more"))
    _ = try await Sallyport.start(scene, server(port))
    for version in [["--tls-max", "1.2"], ["--tlsv1.3"]] {
      let answer = try await scene.curl(cast.to(port) + cast.alice.curl + version + ["https://localhost/"])
      #expect(answer.status == 200, "\(version)")
    }
    #expect(try write(scene, cast, others: 520) > 65_279)
    let tooMany = try scene.check(server(1))
    #expect(!tooMany.isValid && tooMany.contains("every handshake would fail"))
    // Names that are not sent need no room.
    #expect(try scene.check(server(1, in: "ssl_trusted_certificate")).isValid)
  }

  @Test func `check says of a certificate that is no CA whom it lets in`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let alone = try scene.identity("alone", cast.authority.client(.selfSigned))
    let check = try scene.check(server(1, "alone.pem"))
    #expect(check.isValid && check.contains("only itself gets in"))
    #expect(try scene.check(server(1, "alice.pem")).contains("no certificate verifies by it"))
    #expect(try !scene.check(server(1, "ca.pem")).contains("which is no CA"))
    let port = try scene.port()
    _ = try await Sallyport.start(scene, server(port, "alone.pem"))
    for (who, status) in [(alone, 200), (cast.alice, 400)] {
      #expect(try await scene.curl(cast.to(port) + who.curl + ["https://localhost/"]).status == status)
    }
  }
}
