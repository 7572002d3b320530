import Crypto
import Glibc
import TestSupport
import Testing

/// What a client makes the server compute by one message (D(HE)at: CVE-2002-20001, CVE-2024-41996).
@Suite(.staged) struct `Costs of handshakes` {
  private func server(_ port: UInt16, _ lines: String = "", workers: Int = 1) -> String {
    configuration(
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; ssl_certificate server.pem;
        ssl_certificate_key server.key; \(lines) location / { return 200 ok; } }
      """
    ).replacing("worker_processes 2", with: "worker_processes \(workers)")
  }

  private func shakes(_ scene: Scene, _ port: UInt16, _ arguments: [String]) async throws -> Bool {
    let result = try await scene.run(
      "openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost"] + arguments, input: [])
    return result.text.contains("BEGIN CERTIFICATE")
  }

  @Test func `CVE-2002-20001: no group of a finite field, nor X448 or P-521, unless the configuration names it`()
    async throws
  {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let (plain, named) = (try scene.port(), try scene.port())
    _ = try await Sallyport.start(scene, server(plain))
    _ = try await Sallyport.start(
      scene, server(named, "ssl_ecdh_curve ffdhe2048:X448:P-521;").replacing("sallyport.pid", with: "named.pid"),
      name: "named")
    for (group, isDefault) in [
      ("X25519", true), ("P-256", true), ("P-384", true), ("X448", false), ("P-521", false), ("ffdhe2048", false),
      ("ffdhe8192", false),
    ] {
      #expect(try await shakes(scene, plain, ["-tls1_3", "-groups", group]) == isDefault, "\(group)")
    }
    for group in ["X448", "P-521", "ffdhe2048"] {
      #expect(try await shakes(scene, named, ["-tls1_3", "-groups", group]), "\(group)")
    }
  }

  @Test func `without ssl_dhparam there are no DHE suites, as in nginx`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    _ = try scene.identity("server", cast.authority.server(key: .generate(.rsa(bits: 2048))))
    try await scene.succeed(
      "openssl", "genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:ffdhe2048", "-out", "dh.pem")
    let (without, with) = (try scene.port(), try scene.port())
    _ = try await Sallyport.start(scene, server(without, "ssl_ciphers DHE:ECDHE;"))
    _ = try await Sallyport.start(
      scene,
      server(with, "ssl_ciphers DHE:ECDHE; ssl_dhparam dh.pem;").replacing("sallyport.pid", with: "named.pid"),
      name: "named")
    let suite = ["-tls1_2", "-cipher", "DHE-RSA-AES256-GCM-SHA384"]
    #expect(try await !shakes(scene, without, suite))
    #expect(try await shakes(scene, with, suite))
    #expect(try await shakes(scene, without, ["-tls1_2"]))
  }

  @Test func `sallyport itself agrees to no such group with an upstream`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let (upstream, port) = (try scene.port(), try scene.port())
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(upstream) ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_ecdh_curve ffdhe2048:X448:P-521; location / { return 200 ok; } }
      server { listen 127.0.0.1:\(port);
        location /default { proxy_pass https://127.0.0.1:\(upstream)/; proxy_ssl_verify off; }
        location /named { proxy_pass https://127.0.0.1:\(upstream)/; proxy_ssl_verify off;
          proxy_ssl_ecdh_curve ffdhe2048; } }
      """)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/default"]).status == 502)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/named"]).status == 200)
  }

  @Test func `CVE-2024-41996: an established connection goes before the ClientHellos that wait`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.start(scene, server(port, "ssl_ecdh_curve X25519:ffdhe8192;"))
    // The public key of the exponent 2, which costs the client nothing.
    let ffdhe8192: UInt16 = 0x0104
    let hello = ClientHello.record(
      groups: [ffdhe8192], shares: [(ffdhe8192, [UInt8](repeating: 0, count: 1023) + [4])])
    let answered = try await scene.talk(tls: port, ["-groups", "X25519"]) { client -> Int in
      let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
      try client.write(request)
      #expect(try client.response().status == 200)
      let flood = try (0..<20).map { _ in try Wire.dial(port: port) }
      defer { flood.forEach { $0.close() } }
      for wire in flood { try wire.write(hello) }
      try client.write(request)
      #expect(try client.response().status == 200)
      return flood.count { $0.hasInput }
    }
    #expect(answered < 10)
    _ = cast
  }
}
