import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `A response over HTTP 2 from the upstream` {
  private typealias Connection = UpstreamFrameConnection

  /// Answers by path, and the path /alive as it should be.
  private static func upstream(
    _ scene: Scene, _ answer: @escaping @Sendable (UpstreamFrameConnection, UpstreamFrameRequest) throws -> Void
  ) throws -> UpstreamFrameServer {
    try .serving(scene) { connection, request in
      if request.path == "/alive" { return try connection.answer(request, "alive") }
      try answer(connection, request)
    }
  }

  @Test func `goes to the client with its status and fields`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try Self.upstream(scene) { connection, request in
      try connection.answer(
        request, "text", status: 418,
        fields: [("content-type", "text/x"), ("x-empty", ""), ("set-cookie", "a=1"), ("set-cookie", "b=2")])
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    let result = try await proxy.curl("/")
    #expect(result.status == 418 && result.text == "text" && result["Content-Type"] == "text/x")
    #expect(result.response.all("Set-Cookie") == ["a=1", "b=2"] && result["X-Empty"] == "")
  }

  @Test func `has no body after HEAD, 204 and 304, however it ends`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try Self.upstream(scene) { connection, request in
      let status = request.path.contains("204") ? "204" : request.path.contains("304") ? "304" : "200"
      let isLate = request.path.contains("late")
      let length = status == "204" ? [] : [("content-length", "70")]
      try connection.headers(request.stream, [(":status", status)] + length, ends: !isLate)
      if isLate { try connection.data(request.stream, [], ends: true) }
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    for late in ["", "late"] {
      for path in ["/204", "/304"] {
        let result = try await proxy.curl(path + late)
        #expect(result.exit == 0 && "/\(result.status)" == path && result.body.isEmpty)
      }
      let head = try await proxy.curl("/head" + late, ["-I"])
      #expect(head.exit == 0 && head.status == 200 && head["Content-Length"] == "70")
    }
    #expect(upstream.connections == 1)
  }

  @Test func `interim responses are dropped, and more than a hundred are an error`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try Self.upstream(scene) { connection, request in
      for index in 0..<(request.path == "/many" ? 101 : 100) {
        let status = index % 2 == 0 ? "103" : "100"
        try connection.headers(request.stream, [(":status", status)] + (index % 4 == 0 ? [("link", "</a>")] : []))
      }
      try connection.answer(request, "final")
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    let result = try await proxy.curl("/")
    #expect(result.status == 200 && result.text == "final" && !result.heads.contains(" 103 ") && result["Link"] == nil)
    #expect(try await proxy.curl("/many").status == 502)
    try await proxy.daemon.logged("[error]", "interim responses")
    try await proxy.lives()
  }

  @Test(.ofHTTP1) func `waits for a slow client, and no byte of it is lost`() async throws {
    let scene = try Scene.ofTest(), body = Pattern.bytes(8 << 20)
    let upstream = try Self.upstream(scene) { connection, request in
      try connection.headers(request.stream, [(":status", "200"), ("content-length", "\(body.count)")])
      try connection.body(request.stream, body) { event in
        if case .request(let other) = event { try connection.headers(other.stream, [(":status", "204")], ends: true) }
      }
    }
    let proxy = try await FramedProxy(scene, to: upstream, location: "proxy_buffers 8 8k;")
    try await proxy.talk { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
      _ = try wire.read(through: "\r\n\r\n")
      // Another stream of the session isn't held up by the one that waits.
      let other = try Wire.dial(port: proxy.port)
      defer { other.close() }
      try other.write("GET /alive HTTP/1.1\r\nHost: h\r\n\r\n")
      #expect(try other.response().status == 204)
      #expect(Pattern.equal(try wire.read(exactly: body.count), body))
    }
  }

  @Test func `has its trailers`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    let upstream = try Self.upstream(scene) { connection, request in
      try connection.answer(
        request, request.path == "/none" ? "" : "body", trailers: [("x-sum", "7"), ("x-other", "8")])
    }
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        location / { proxy_pass http://127.0.0.1:\(upstream.port); proxy_http_version 2; } }
      """)
    // Without a body, a response of HTTP/1.1 has no place for trailers.
    for path in scene.speech == .http1 ? ["/"] : ["/", "/none"] {
      let result = try await scene.curl(
        cast.to(port) + cast.alice.curl + ["-H", "TE: trailers", "https://localhost\(path)"])
      #expect(result.status == 200 && result.text == (path == "/" ? "body" : ""))
      #expect(result.heads.lowercased().contains("x-sum: 7"), "\(path): \(result.heads)")
    }
  }
}
