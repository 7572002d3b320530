import TestSupport
import Testing

/// `proxy_bind`, `proxy_socket_keepalive`, `proxy_limit_rate` and `proxy_ignore_headers`.
@Suite(.staged) struct `The connection to an upstream` {
  @Test func `comes from the address of proxy_bind, and is kept for that address alone`() async throws {
    let scene = try Scene.ofTest()
    let (port, up) = try (scene.port(), scene.port())
    _ = try await NginxUpstream.start(
      scene, ports: [up],
      "server { listen 127.0.0.1:\(up); location / { return 200 \"$remote_addr $connection_requests\"; } }")
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream kept { server 127.0.0.1:\(up); server 127.0.0.1:\(up); keepalive 8; }
        proxy_http_version 1.1; proxy_set_header Connection ""; proxy_socket_keepalive on;
        proxy_socket_sndbuf 32k; proxy_socket_rcvbuf 32k;
        server { listen 127.0.0.1:\(port);
          location /fixed { proxy_bind 127.0.0.5; proxy_pass http://127.0.0.1:\(up); }
          location /named { proxy_bind $arg_a; proxy_pass http://kept; }
          location /off { proxy_bind 127.0.0.5; location /off/in { proxy_bind off; proxy_pass http://127.0.0.1:\(up); } }
          location /gone { proxy_bind 192.0.2.1; proxy_pass http://kept; }
          location /six { proxy_bind ::1; proxy_pass http://127.0.0.1:\(up); }
        }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    func get(_ path: String) async throws -> String {
      let result = try await scene.curl(["-g", "http://127.0.0.1:\(port)\(path)"])
      return result.status == 200 ? result.text : "\(result.status)"
    }
    #expect(try await get("/fixed") == "127.0.0.5 1")
    #expect(try await get("/off/in") == "127.0.0.1 1")
    // Each address has two servers, and so two connections.
    var texts: [String] = []
    for address in ["127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.2", "127.0.0.3", "", ""] {
      texts.append(try await get("/named?a=\(address)"))
    }
    #expect(
      texts == [
        "127.0.0.2 1", "127.0.0.2 1", "127.0.0.3 1", "127.0.0.3 1", "127.0.0.2 2", "127.0.0.3 2", "127.0.0.1 1",
        "127.0.0.1 1",
      ])
    for path in ["/named?a=evil", "/named?a=1.2.3", "/named?a=127.0.0.2:x", "/gone", "/six"] {
      #expect(try await get(path) == "500", "\(path)")
    }
    try await daemon.logged("[error]", "invalid local address \"evil\" in \"proxy_bind\"")
    try await daemon.logged("bind() failed (99: Cannot assign requested address)")
    // The servers are not to blame.
    #expect(try await get("/named?a=127.0.0.2") == "127.0.0.2 2")
  }

  @Test func `reads a response no faster than proxy_limit_rate, and only with buffering`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene, records: false)
    let port = try scene.port()
    let pass = "proxy_http_version 1.1; proxy_pass http://127.0.0.1:\(upstream.port);"
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); proxy_limit_rate $arg_rate;
        location / { \(pass) }
        location = /bytes/1000 { proxy_buffering off; \(pass) }
      }
      """)
    for (path, atLeast) in [
      ("/bytes/100000?rate=40000", 1200), ("/chunked/100000?rate=40k", 1100), ("/bytes/40000?rate=x", 0),
      ("/bytes/90000?rate=0", 0), ("/head?rate=1m", 0),
    ] {
      let clock = ContinuousClock(), start = clock.now
      let result = try await scene.curl(["http://127.0.0.1:\(port)\(path)"])
      #expect(result.status == 200 && result.exit == 0, "\(path)")
      // A lower bound: a busy machine only makes it longer.
      #expect((clock.now - start) >= .milliseconds(atLeast), "\(path)")
    }
    let free = try await scene.curl(["--max-time", "60", "http://127.0.0.1:\(port)/bytes/1000?rate=1"])
    #expect(free.body == Pattern.bytes(1000) && free.exit == 0)
    let before = try #require(daemon.memory("VmHWM"))
    _ = try await scene.curl(["--max-time", "2", "http://127.0.0.1:\(port)/bytes/64000000?rate=100k"])
    #expect(try #require(daemon.memory("VmHWM")) - before < 16_384)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/head"]).status == 200)
  }

  @Test func `proxy_ignore_headers leaves X-Accel-Limit-Rate unheeded, and hides nothing`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in
        try wire.answer(
          bytes: Pattern.bytes(15_000), fields: ["X-Accel-Limit-Rate: 10000", "Vary: a", "Set-Cookie: a=1"])
      }
    }
    let proxy = try await PlainProxy(
      scene, to: upstream.port,
      location: "proxy_ignore_headers X-Accel-Limit-Rate vary Set-Cookie; add_header X-Rate $limit_rate;")
    let result = try await proxy.curl("/")
    #expect(result.body == Pattern.bytes(15_000) && result["X-Rate"] == "0")
    #expect(result["Vary"] == "a" && result["Set-Cookie"] == "a=1" && result["X-Accel-Limit-Rate"] == nil)
  }
}
