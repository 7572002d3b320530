import Crypto
import Glibc
import TestSupport
import Testing

/// Holes that an attack on the running daemon found, each closed.
@Suite(.staged) struct `What an attacker tried` {
  @Test(arguments: [0, 1, 2])
  func `a connection opened before a reload is not judged by the policy of before`(steps: Int) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    func text(_ more: String) -> String {
      configuration("server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(more) return 204; }")
    }
    let daemon = try await Sallyport.start(scene, text(""))
    // As far as: connected, half of a request sent, a request answered.
    let client = try OpenSSLClient(scene, port: port, identity: cast.alice, ["-state", "-tls1_3"])
    // The server is done with the handshake when it gives a ticket.
    try await until("the handshake to end") { client.log.contains("read server session ticket") }
    if steps > 0 { try client.wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n") }
    if steps > 1 {
      try client.wire.write("\r\n")
      #expect(try await offPool { try client.wire.response() }.status == 204)
    }
    let list = RevocationListBuilder(revoking: [cast.alice.certified.certificate])
    try scene.write("crl.pem", text: list.pem(signedBy: cast.authority.root))
    try scene.write("sallyport.conf", text: text("ssl_crl crl.pem;"))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    // Whoever was served is let go; who has just connected is told.
    if steps == 2 { return #expect(try await offPool { try client.wire.isClosedByPeer() }) }
    try client.wire.write(steps == 1 ? "\r\n" : "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try await offPool { try client.wire.response() }.status == 400)
  }

  @Test func `a reload loses no connection that has just been opened`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration("server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) return 204; }"))
    let asking = Task {
      try await scene.run(
        "sh",
        [
          "-c",
          """
          for i in $(seq 120); do curl -sS -q --noproxy '*' -o /dev/null -w '%{http_code} ' --max-time 20 \
            \((cast.to(port) + cast.alice.curl).joined(separator: " ")) https://localhost/ & done; wait
          """,
        ])
    }
    for generation in 2...6 {
      daemon.signal(SIGHUP)
      try await daemon.logged("reconfigured: generation \(generation)")
    }
    let answers = try await asking.value.text.split(separator: " ")
    #expect(answers.count == 120 && answers.allSatisfy { $0 == "204" }, "\(answers)")
  }

  @Test func `an answer during a reload says that the connection ends`() async throws {
    let scene = try Scene.ofTest()
    let go = Flag()
    let upstream = try ScriptedUpstream.holding(scene, until: go)
    let proxy = try await PlainProxy(scene, to: upstream.port)
    let client = try Wire.dial(port: proxy.port)
    try client.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    try await until("the request at the upstream") { upstream.requests("GET") == 1 }
    proxy.daemon.signal(SIGHUP)
    try await proxy.daemon.logged("reconfigured: generation 2")
    go.raise()
    let answer = try await offPool { try client.response() }
    #expect(answer.status == 200 && answer["Connection"] == "close")
  }

  @Test func `set fields are the proxy's under every spelling, by way of a variable too`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in try wire.serve { _ in try wire.answer("ok") } }
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "proxy_set_header X-Client $caller;",
      server: "underscores_in_headers on; ignore_invalid_headers off; set $caller alice;")
    let result = try await proxy.curl("/", ["-H", "X_Client: admin", "-H", "X.Client: admin", "-H", "X-Client: admin"])
    #expect(result.status == 200)
    #expect(upstream.receivedText.contains("X-Client: alice") && !upstream.receivedText.contains("admin"))
  }

  @Test func `interim responses without end do not hold a request for ever`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in
        for _ in 0..<200 { try wire.write("HTTP/1.1 102 Processing\r\n\r\n") }
        try wire.answer("late")
      }
    }
    let proxy = try await PlainProxy(scene, to: upstream.port)
    #expect(try await proxy.curl("/").status == 502)
    try await proxy.daemon.logged("more than 100 interim responses")
  }

  @Test func `without SNI the default server's certificate rules count, whoever serves the empty name`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl default_server; server_name a.test;
        ssl_certificate server.pem; ssl_certificate_key server.key; return 204; }
      server { listen 127.0.0.1:\(port) ssl; server_name ""; \(Cast.tls) return 200 strict; }
      """)
    // curl sends no SNI for an address.
    let answer = try await scene.curl(
      ["--cacert", scene.path("ca.pem"), "-H", "Host: a.test", "https://127.0.0.1:\(port)/"])
    #expect(answer.status == 204)
    _ = cast
  }
}
