import TestSupport
import Testing

/// RFC 8879, `ssl_certificate_compression`. OpenSSL 3.2 and later have it; a client that they make offers and takes it.
@Suite(.staged) struct `Compressed certificates` {
  /// Whether the system's openssl compresses certificates.
  private func isAvailable(_ scene: Scene) async throws -> Bool {
    try await scene.run("openssl", ["s_client", "-help"]).errors.contains("-no_rx_cert_comp")
  }

  /// The handshake messages of a client with a certificate: what the server sent, and what the client did.
  private func certificates(_ scene: Scene, _ port: UInt16, _ alice: IdentityFiles) async throws -> (
    server: String, client: String
  ) {
    let seen = try await scene.run(
      "openssl", ["s_client", "-msg", "-connect", "127.0.0.1:\(port)", "-servername", "localhost"] + alice.openssl)
    func message(_ mark: Substring) -> String {
      let lines = seen.text.split(separator: "\n").filter { $0.hasPrefix(mark) }
      return lines.contains { $0.contains("CompressedCertificate") || $0.contains("Compressed Certificate") }
        ? "compressed" : lines.contains { $0.hasSuffix(", Certificate") } ? "plain" : "none"
    }
    return (message("<<<"), message(">>>"))
  }

  private func start(_ scene: Scene, _ line: String) async throws -> UInt16 {
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(line) return 200 $ssl_client_s_dn; }
      """)
    return port
  }

  @Test func `CVE-2025-66199: without the directive, nobody compresses a certificate`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try await start(scene, "")
    let seen = try await certificates(scene, port, cast.alice)
    #expect(seen == ("plain", "plain"))
  }

  @Test func `with it, both sides do, and the client is known all the same`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try await start(scene, "ssl_certificate_compression on;")
    let state = try await isAvailable(scene) ? "compressed" : "plain"
    let seen = try await certificates(scene, port, cast.alice)
    #expect(seen == (state, state))
    let answer = try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"])
    #expect(answer.status == 200 && answer.text.contains("CN="), "\(answer.text)")
    let none = try await scene.curl(cast.to(port) + ["https://localhost/"])
    #expect(none.status == 400)
  }
}
