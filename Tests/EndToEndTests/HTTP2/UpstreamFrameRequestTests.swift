import TestSupport
import Testing

/// RFC 9113, as the upstream reads it.
@Suite(.stagedOverBoth) struct `A request over HTTP 2 to the upstream` {
  private static func echo(_ scene: Scene, _ settings: [(id: UInt16, value: UInt32)] = []) throws -> UpstreamFrameServer
  {
    try .serving(scene, settings) { try $0.answer($1, $1.text) }
  }

  @Test(.ofHTTP1) func `has its pseudo-fields, and no field of a connection`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.echo(scene)
    let proxy = try await FramedProxy(
      scene, to: upstream,
      location: "proxy_set_header Host up.example:81; proxy_set_header Upgrade h2c; proxy_set_header X-Own \"a b\";")
    let status = try await proxy.talk { wire in
      try wire.write(
        """
        GET /a/b?c=%20d HTTP/1.1\r
        Host: shown.example\r
        Connection: x-secret, keep-alive, upgrade\r
        X-Secret: 1\r
        Keep-Alive: timeout=5\r
        Proxy-Connection: keep-alive\r
        Upgrade: websocket\r
        TE: trailers, deflate\r
        X-MiXeD: Value\r
        Cookie: a=1; b=2\r
        Early-Data: 1\r
        Expect: 100-continue\r
        \r\n
        """)
      return try wire.response().status
    }
    #expect(status == 200)
    let request = try #require(upstream.requests.first)
    #expect(request.fields.prefix(4).allSatisfy { $0.name.hasPrefix(":") })
    #expect(request.fields.dropFirst(4).allSatisfy { !$0.name.hasPrefix(":") })
    #expect(request.method == "GET" && request.path == "/a/b?c=%20d" && request[":scheme"] == "http")
    #expect(request.all(":authority") == ["up.example:81"])
    #expect(request["x-mixed"] == "Value" && request["x-own"] == "a b" && request.all("cookie") == ["a=1; b=2"])
    for name in [
      "host", "connection", "x-secret", "keep-alive", "proxy-connection", "upgrade", "transfer-encoding", "expect",
      "te",
      "content-length", "http2-settings",
    ] {
      #expect(request[name] == nil, "\(name): \(request[name] ?? "")")
    }
    #expect(request.fields.allSatisfy { $0.name == $0.name.lowercased() })
  }

  @Test func `names the upstream as its authority, and may say that trailers are welcome`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.echo(scene)
    let proxy = try await FramedProxy(
      scene, to: upstream, location: "proxy_set_header TE trailers;",
      locations: "location /none { proxy_pass http://framed; proxy_set_header Host \"\"; proxy_set_header TE gzip; }")
    #expect(try await proxy.curl("/").status == 200)
    #expect(try await proxy.curl("/none").status == 200)
    let requests = upstream.requests
    #expect(
      requests.map { $0[":authority"] } == ["framed", "framed"] && requests.map { $0["te"] } == ["trailers", nil])
  }

  @Test func `has its length where that is known, and ends where no body follows`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.echo(scene)
    let proxy = try await FramedProxy(
      scene, to: upstream, locations: "location /s { proxy_pass http://framed; proxy_request_buffering off; }")
    let chunked = ["-H", "Transfer-Encoding: chunked"]
    #expect(try await proxy.curl("/", input: Array("four".utf8)).text == "four")
    #expect(try await proxy.curl("/", chunked, input: Array("four".utf8)).text == "four")
    #expect(try await proxy.curl("/s", input: Array("four".utf8)).text == "four")
    #expect(try await proxy.curl("/s", chunked, input: Array("four".utf8)).text == "four")
    #expect(try await proxy.curl("/s", chunked, input: []).text == "")
    #expect(try await proxy.curl("/", ["-X", "POST"]).text == "")
    let lengths = upstream.requests.map { $0["content-length"] }
    // HTTP/2 has no chunks: curl 8 drops the field and says the length, which it knows.
    let unknown = scene.speech == .http2 ? lengths[3...4] : [nil, nil]
    #expect(lengths[..<3] == ["4", "4", "4"] && lengths[5] == nil && lengths[3...4] == unknown)
    #expect(unknown == [nil, nil] || unknown == ["4", "0"])
    #expect(upstream.requests[5].pieces.isEmpty)
  }

  @Test func `tells of the client as over HTTP 1, whatever the client says itself`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), upstream = try Self.echo(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        location / { proxy_pass http://127.0.0.1:\(upstream.port); proxy_http_version 2;
          proxy_set_header X-Client-DN $ssl_client_s_dn; } }
      """)
    let forged = ["-H", "X-Client-DN: CN=root", "-H", "X_Client_DN: CN=root"]
    for _ in 0..<2 {
      let result = try await scene.curl(cast.to(port) + cast.alice.curl + forged + ["https://localhost/"])
      #expect(result.status == 200)
    }
    for request in upstream.requests {
      #expect(request.all("x-client-dn").count == 1 && request["x-client-dn"]?.hasPrefix("CN=alice,") == true)
      #expect(request["x_client_dn"] == nil && !request.fields.contains { $0.value == "CN=root" })
    }
    #expect(upstream.requests.count == 2)
  }

  @Test func `has the client's trailers, without those that the configuration sets`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.echo(scene)
    let proxy = try await FramedProxy(
      scene, to: upstream, location: "proxy_request_buffering off; proxy_set_header X-Set own;")
    let status = try await scene.ask(proxy.port) { client in
      try client.begin("POST", "/", body: .open)
      try client.send("body")
      try client.end(trailers: [("X-Sum", "7"), ("X-Set", "theirs")])
      return try client.response().status
    }
    let request = try #require(upstream.requests.first)
    #expect(status == 200 && request.text == "body" && request.trailers.map(\.name) == ["x-sum"])
    #expect(request.trailers.first?.value == "7" && request.all("x-set") == ["own"])
  }

  @Test(arguments: [true, false])
  func `CVE-2026-42926: a body is a body, whatever it looks like`(isBuffered: Bool) async throws {
    let scene = try Scene.ofTest(), upstream = try Self.echo(scene)
    let proxy = try await FramedProxy(
      scene, to: upstream, location: "proxy_request_buffering \(isBuffered ? "on" : "off"); client_max_body_size 0;")
    let head = UpstreamFrameConnection.block([
      (":method", "GET"), (":scheme", "http"), (":path", "/smuggled"), (":authority", "h"),
    ])
    let request = UpstreamFrameConnection.frame(1, flags: 5, stream: 3, head)
    let bodies: [[UInt8]] = [
      request, Array("GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n".utf8),
      Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + UpstreamFrameConnection.frame(4) + request,
      UpstreamFrameConnection.frame(0, flags: 1, stream: 1) + request,
      // Each frame on the boundary of a frame of the connection, and one byte beside it.
      [UInt8](repeating: 0, count: 16_384) + request, [UInt8](repeating: 0, count: 16_384 - 9) + request,
      Array(repeatElement(request, count: 2000).joined()),
    ]
    for body in bodies {
      let result = try await proxy.curl("/echo", input: body)
      #expect(result.status == 200)
    }
    #expect(upstream.paths == Array(repeating: "/echo", count: bodies.count) && upstream.connections == 1)
    for (request, body) in zip(upstream.requests, bodies) { #expect(Pattern.equal(request.body, body)) }
  }

  @Test func `a body waits for the upstream's window, and no byte of it is lost`() async throws {
    let scene = try Scene.ofTest(), body = Pattern.bytes(300_000)
    let taken = Flag(), goOn = Flag()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open([(4, 1000)])
      // After its first response, the proxy knows the window.
      if let request = try connection.request() { try connection.answer(request) }
      connection.credits = false
      try connection.readData(1000)
      taken.raise()
      goOn.wait()
      connection.credits = true
      try connection.windowUpdate(3, 1000)
      try connection.serve { try connection.answer($0, "\($0.body.count) \($0.pieces.max() ?? 0)") }
    }
    let proxy = try await FramedProxy(scene, to: upstream, location: "proxy_request_buffering off;")
    #expect(try await proxy.curl("/").status == 200)
    async let asked = proxy.curl("/", input: body)
    try await until("the window to be full") { taken.isRaised }
    goOn.raise()
    #expect(try await asked.text == "300000 1000")
    #expect(Pattern.equal(try #require(upstream.requests.last).body, body))
  }

  @Test func `nginx before 1_31_2, a large head with ignore_invalid_headers off: it goes in CONTINUATION frames`()
    async throws
  {
    let scene = try Scene.ofTest(), upstream = try Self.echo(scene)
    let proxy = try await FramedProxy(
      scene, to: upstream, server: "large_client_header_buffers 16 16k; ignore_invalid_headers off;")
    let lines = (0..<6).map { "X_\($0).y: \(String(repeating: "\($0)~", count: 4000))" }
    let result = try await proxy.curl("/", lines.flatMap { ["-H", $0] })
    #expect(result.status == 200)
    let request = try #require(upstream.requests.first)
    for index in 0..<6 {
      #expect(request["x_\(index).y"] == String(repeating: "\(index)~", count: 4000))
    }
  }

  /// libnghttp2's own limit is 64 KiB, above which it would leave the stream without an answer.
  @Test func `a head of more than 64 KiB is sent, and the session goes on`() async throws {
    let scene = try Scene.ofTest(), upstream = try Self.echo(scene)
    let proxy = try await FramedProxy(scene, to: upstream, server: "large_client_header_buffers 16 16k;")
    #expect(try await proxy.curl("/").status == 200)
    let fields = (0..<12).map { ("X-\($0)", String(repeating: "~", count: 8000)) }
    #expect(try await scene.ask(proxy.port) { try $0.get("/large", fields).status } == 200)
    #expect(try await proxy.curl("/after").status == 200)
    #expect(upstream.paths == ["/", "/large", "/after"])
  }
}
