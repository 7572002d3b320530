import TestSupport
import Testing

@Suite(.staged) struct `DH parameters` {
  private func rsa(_ scene: Scene) async throws {
    try await scene.succeed(
      "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "rsa.key", "-out", "rsa.pem", "-subj",
      "/CN=localhost", "-days", "2")
  }

  private func server(_ port: UInt16) -> String {
    configuration(
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; ssl_certificate rsa.pem; ssl_certificate_key rsa.key;
        ssl_dhparam dh.pem; location / { return 200; } }
      """)
  }

  @Test func `a DHE suite computes with those of ssl_dhparam`() async throws {
    let scene = try Scene.ofTest()
    try await rsa(scene)
    try await scene.succeed(
      "openssl", "genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:ffdhe3072", "-out", "dh.pem")
    let port = try scene.port()
    _ = try await Sallyport.start(scene, server(port))
    let client = try await scene.run(
      "openssl",
      ["s_client", "-connect", "127.0.0.1:\(port)", "-tls1_2", "-cipher", "DHE-RSA-AES256-GCM-SHA384"], input: [])
    // "Server" before OpenSSL 3.5, "Peer" since.
    #expect(client.text.contains(" Temp Key: DH, 3072 bits"))
  }
}
