import Glibc
import TestSupport
import Testing

/// Holes that an attack on the running daemon found, each closed.
@Suite(.staged) struct `What an attacker tried` {
  @Test func `a connection opened before a reload is not judged by the policy of before`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (secure, plain) = (try scene.port(), try scene.port())
    let text = configuration(
      """
      server { listen 127.0.0.1:\(secure) ssl; server_name localhost; \(Cast.tls) return 204; }
      server { listen 127.0.0.1:\(plain); return 204; }
      """)
    let daemon = try await Sallyport.start(scene, text)
    let parked = try Wire.dial(port: secure)
    let half = try Wire.dial(port: plain)
    try half.write("GET / HTTP/1.1\r\nHost: h\r\n")
    // A later connection of the same listener was accepted, so these were.
    #expect(try await scene.curl(cast.to(secure) + cast.alice.curl + ["https://localhost/"]).status == 204)
    #expect(try await scene.curl(["http://127.0.0.1:\(plain)/"]).status == 204)
    daemon.signal(SIGHUP)
    let ended = try await offPool { (try parked.isClosedByPeer(), try half.isClosedByPeer()) }
    #expect(ended.0 && ended.1)
  }

  @Test func `an answer during a reload says that the connection ends`() async throws {
    let scene = try Scene.ofTest()
    let go = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in
        go.wait()
        try wire.answer("held")
      }
    }
    let proxy = try await PlainProxy(scene, to: upstream.port)
    let client = try Wire.dial(port: proxy.port)
    try client.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    try await until("the request at the upstream") { upstream.requests("GET") == 1 }
    let idle = try Wire.dial(port: proxy.port)
    try idle.write("GET")
    proxy.daemon.signal(SIGHUP)
    // Its end shows that the worker serves the new generation.
    #expect(try await offPool { try idle.isClosedByPeer() })
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
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl default_server; server_name a.test;
          ssl_certificate server.pem; ssl_certificate_key server.key; return 204; }
        server { listen 127.0.0.1:\(port) ssl; server_name ""; \(Cast.tls) return 200 strict; }
        """))
    // curl sends no SNI for an address.
    let answer = try await scene.curl(
      ["--cacert", scene.path("ca.pem"), "-H", "Host: a.test", "https://127.0.0.1:\(port)/"])
    #expect(answer.status == 204)
    _ = cast
  }
}
