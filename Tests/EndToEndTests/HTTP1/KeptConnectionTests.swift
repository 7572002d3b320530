import TestSupport
import Testing

/// Kept connections to upstreams, which are the default, when a client, an upstream or a field wants the connection for
/// itself.
@Suite(.staged) struct `Connections that must not be shared` {
  /// The upstream takes the connection's user from NTLM, as IIS does.
  @Test(arguments: [
    "Authorization: NTLM\tT3alice", "Authorization: NTLM T3alice", "X-Auth: NTLM T3alice",
    "Proxy-Authorization: Negotiate T3alice",
  ])
  func `a connection that a client has authenticated serves nobody else`(field: String) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      var user = "nobody"
      try wire.serve { request in
        if request.fields.contains(where: { $0.value.contains("T3alice") }) { user = "alice" }
        try wire.answer("you are \(user)")
      }
    }
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream u { server 127.0.0.1:\(upstream.port); keepalive 32; }
        server { listen 127.0.0.1:\(port); location / { proxy_pass http://u; }
          location /set { proxy_pass http://u; proxy_set_header Authorization $http_x_auth; } }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    let path = field.hasPrefix("X-Auth") ? "/set" : "/"
    let alice = try await scene.curl(["-H", field, "http://127.0.0.1:\(port)\(path)"])
    #expect(alice.text == "you are alice")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)\(path)"]).text == "you are nobody")
  }

  @Test func `a session over which sallyport said close is not used again`() async throws {
    let scene = try Scene.ofTest()
    // It doesn't close, so that only sallyport can.
    let upstream = try ScriptedUpstream(scene) { wire, _ in while try wire.request() != nil { try wire.answer("ok") } }
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream u { server 127.0.0.1:\(upstream.port); keepalive 32; }
        server { listen 127.0.0.1:\(port); location / { proxy_pass http://u; proxy_set_header Connection $http_x_conn; } }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    for number in 1...3 {
      #expect(try await scene.curl(["-H", "X-Conn: close", "http://127.0.0.1:\(port)/bytes/1"]).status == 200)
      #expect(upstream.connections == number)
    }
  }

  @Test func `a client that leaves with its request gives its place at the upstream back`() async throws {
    let scene = try Scene.ofTest()
    let release = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        if request.target == "/slow" { release.wait() }
        try wire.answer("ok")
      }
    }
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      upstream u { zone u 64k; server 127.0.0.1:\(upstream.port) max_conns=1; }
      server { listen 127.0.0.1:\(port); location / { proxy_pass http://u; } }
      """)
    for reset in [false, true] {
      let wire = try Wire.dial(port: port)
      try wire.write("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
      if reset { wire.reset() } else { wire.close() }
      try await until("the place at the upstream") {
        try await scene.curl(["http://127.0.0.1:\(port)/a"]).status == 200
      }
    }
    release.raise()
  }
}
