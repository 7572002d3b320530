import Crypto
import TestSupport
import Testing

@Suite(.staged) struct `Causes of failed handshakes` {
  /// A door for each rule, and the page of metrics.
  private struct Doors {
    let scene: Scene
    let daemon: Sallyport
    let open: UInt16
    let strict: UInt16
    let closed: UInt16
    let inside: UInt16

    init(_ scene: Scene) async throws {
      self.scene = scene
      open = try scene.port()
      strict = try scene.port()
      closed = try scene.port()
      inside = try scene.port()
      daemon = try await Sallyport.serve(
        scene,
        """
        ssl_certificate server.pem; ssl_certificate_key server.key;
        server { listen 127.0.0.1:\(open) ssl; server_name localhost; client_header_timeout 300ms;
          ssl_protocols TLSv1.2; ssl_ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256;
          location / { return 200 ok; } }
        server { listen 127.0.0.1:\(strict) ssl; server_name localhost; \(Cast.tls)
          ssl_verify_reject handshake; ssl_client_allow cn=alice; location / { return 200 ok; } }
        server { listen 127.0.0.1:\(closed) ssl; server_name localhost; ssl_reject_handshake on; }
        server { listen 127.0.0.1:\(inside); location = /metrics { metrics; } }
        """)
    }

    func page() async throws -> PrometheusPage {
      try PrometheusPage(try await scene.page(inside, "/metrics").text)
    }

    /// Waits until a counter of this label has this value: the client may know the end before the worker counts it.
    func until(_ name: String, _ label: String, _ value: String, is count: Double) async throws {
      try await TestSupport.until("\(name) \(value) to be \(count)") {
        try await page().value(name, [label: value]) == count
      }
    }

    func until(_ cause: String, is count: Double = 1) async throws {
      try await until("sallyport_client_handshake_failures_total", "cause", cause, is: count)
    }

    func shake(_ port: UInt16, _ arguments: [String]) async throws {
      _ = try await scene.run(
        "openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost"] + arguments)
    }
  }

  @Test func `what did not become a handshake is told apart`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let doors = try await Doors(scene)
    try await scene.talk(doors.open) { $0.close() }
    try await doors.until("abandoned-before-hello")
    try await scene.talk(doors.open) { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
      _ = try wire.readToEnd()
    }
    try await doors.until("plain-http")
    try await scene.talk(doors.open) { wire in
      try wire.write([UInt8](repeating: 0xFF, count: 64))
      _ = try wire.readToEnd()
    }
    try await doors.until("malformed")
    // Closed by the server, after client_header_timeout.
    _ = try await scene.talk(doors.open) { try $0.readToEnd() }
    try await doors.until("timeout")
    let page = try await doors.page()
    #expect(page.value("sallyport_client_handshake_failures_total") == 4)
    #expect(page.value("sallyport_client_handshakes_total", ["verdict": "failed"]) == 4)
  }

  @Test func `sides that share nothing, unknown names and clients that refuse us are told apart`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let doors = try await Doors(scene)
    try await doors.shake(doors.open, ["-tls1_3"])
    try await doors.until("version")
    try await doors.shake(doors.open, ["-tls1_2", "-cipher", "AES256-SHA256"])
    try await doors.until("cipher")
    // OpenSSL's words, by which people search, and what they mean.
    try await doors.daemon.logged("SSL routines::unsupported protocol: no TLS version is allowed by both sides)")
    try await doors.daemon.logged("SSL routines::no shared cipher: no cipher suite is allowed by both sides")
    try await doors.shake(doors.closed, [])
    try await doors.until("unknown-name")
    // It trusts another CA.
    _ = try scene.anchors("other", TestAuthority("Other"))
    _ = try await scene.run(
      "curl", ["-sS", "--cacert", scene.path("other.pem"), "https://127.0.0.1:\(doors.open)/"])
    try await doors.until("server-certificate-refused")
  }

  @Test func `whom ssl_verify_reject refuses is told by cause and by the fault of the certificate`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let doors = try await Doors(scene)
    let expired = try scene.identity("expired", cast.authority.client(.expired))
    let stranger = try scene.identity("stranger", TestAuthority("Other").client())
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    try await doors.shake(doors.strict, [])
    try await doors.until("no-certificate")
    try await doors.shake(doors.strict, expired.openssl)
    try await doors.until("certificate")
    try await doors.until("sallyport_client_certificate_refusals_total", "reason", "expired", is: 1)
    try await doors.shake(doors.strict, stranger.openssl)
    try await doors.until("certificate", is: 2)
    try await doors.until("sallyport_client_certificate_refusals_total", "reason", "untrusted", is: 1)
    try await doors.shake(doors.strict, bob.openssl)
    try await doors.until("rule")
    #expect(try await doors.page().value("sallyport_client_certificate_refusals_total") == 2)
  }
}
