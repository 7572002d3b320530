import TestSupport
import Testing

/// What nginx does with the requests of one HTTP/2 connection: for several server blocks, and for windows that keep
/// responses back.
@Suite(.staged) struct `Requests of one HTTP 2 connection` {
  private func front(_ scene: Scene, _ http: String) async throws -> (UInt16, Sallyport) {
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, configuration(http.replacing("PORT", with: "127.0.0.1:\(port)")))
    return (port, daemon)
  }

  private static func get(_ stream: UInt32, _ path: String, host: String) -> HTTP2Frame {
    .headers(
      stream,
      HPACK.block(HPACK.request("GET", path).map { ($0.name, $0.name == ":authority" ? host : $0.value) }))
  }

  @Test func `get 421 for a server block without http2`() async throws {
    let scene = try Scene.ofTest()
    let (port, daemon) = try await front(
      scene,
      """
      server { listen PORT default_server; server_name a.test; http2 on; return 200 a; }
      server { listen PORT; server_name b.test; return 200 b; }
      server { listen PORT; server_name c.test; http2 on; return 200 c; }
      """)
    let answers = try await scene.frames(port) { client in
      try ["a.test", "b.test", "c.test"].enumerated().map { index, host in
        let stream = UInt32(index * 2 + 1)
        client.send(Self.get(stream, "/", host: host))
        let answer = try client.response(on: stream)
        return "\(answer.status) \(answer.status == 200 ? answer.text : "")"
      }
    }
    #expect(answers == ["200 a", "421 ", "200 c"])
    try await daemon.logged(
      "[notice]", "client attempted to request the server name for which the negotiated protocol is disabled")
    #expect(
      try await scene.curl(["-H", "Host: b.test", "--http1.1", "http://127.0.0.1:\(port)/"]).text == "b")
  }

  /// `listen … http2` is of the address, as in nginx.
  @Test func `are served where listen has http2 for the address`() async throws {
    let scene = try Scene.ofTest()
    let (port, _) = try await front(
      scene,
      """
      server { listen PORT http2; server_name a.test; return 200 a; }
      server { listen PORT; server_name b.test; return 200 b; }
      """)
    let answer = try await scene.frames(port) { client in
      client.send(Self.get(1, "/", host: "b.test"))
      return try client.response(on: 1)
    }
    #expect(answer.status == 200 && answer.text == "b")
  }

  @Test func `count for limit_conn until the client has their responses`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("index.html", text: "0123456789")
    let (port, _) = try await front(
      scene,
      """
      limit_conn_zone $binary_remote_addr zone=z:1m;
      server { listen PORT; http2 on; location / { limit_conn z 1; root \(scene.folder); } }
      """)
    let statuses = try await scene.frames(port, settings: [4: 1]) { client in
      func status(_ stream: UInt32) throws -> Int {
        client.send(.get(stream, "/"), .windowUpdate(stream, 9999))
        return try client.response(on: stream).status
      }
      client.send(.get(1, "/"))
      _ = try client.settle()
      let refused = try status(3)
      // The rest goes. It is read from the file beside the loop, so only its end tells that it has gone.
      client.send(.windowUpdate(1, 9999))
      _ = try client.response(on: 1)
      let second = try status(5)
      client.send(.get(7, "/"))
      _ = try client.settle()
      let third = try status(9)
      client.send(.reset(7))
      _ = try client.settle()
      return [refused, second, third, try status(11)]
    }
    #expect(statuses == [503, 200, 503, 200])
    // What a connection held is given back with it.
    try await scene.frames(port, settings: [4: 1]) { client in
      client.send(.get(1, "/"))
      _ = try client.settle()
    }
    try await until("the count is given back") {
      try await scene.frames(port) { try $0.get(1, "/").status } == 200
    }
  }

  @Test func `get the trailers of add_trailer after an empty body`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in try wire.serve { _ in try wire.answer("") } }
    let (port, _) = try await front(
      scene,
      """
      server { listen PORT; http2 on; add_trailer X-A one;
        location / { return 200 ""; } location /up { proxy_pass http://127.0.0.1:\(upstream.port); }
        location /none { return 204; } location /unset { add_trailer X-A $arg_none; return 200 ""; } }
      """)
    let answers = try await scene.frames(port) { client in
      try ["/", "/up", "/none", "/unset"].enumerated().map { index, path in
        let answer = try client.get(UInt32(index * 2 + 1), path)
        return
          "\(answer.status) \(answer["content-length"] ?? "-") \(answer.trailers.map(\.value)) \(answer.isComplete)"
      }
    }
    #expect(answers == ["200 0 [\"one\"] true", "200 0 [\"one\"] true", "204 - [] true", "200 0 [] true"])
  }

  @Test func `get all that came of a response that broke off, and then a reset`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.requestHead()
      try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n")
      try wire.write(Pattern.bytes(50_000))
    }
    let framed = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      guard let request = try connection.head() else { return }
      try connection.headers(request.stream, [(":status", "200"), ("content-length", "90000")])
      for start in stride(from: 0, to: 50_000, by: 10_000) {
        try connection.data(request.stream, Array(Pattern.bytes(50_000)[start..<start + 10_000]))
      }
    }
    let (port, _) = try await front(
      scene,
      """
      server { listen PORT; http2 on; proxy_buffers 2 4k; send_timeout 10s;
        location / { proxy_pass http://127.0.0.1:\(upstream.port); }
        location /framed { proxy_http_version 2; proxy_pass http://127.0.0.1:\(framed.port); }
        location /paced { limit_rate 30k; proxy_pass http://127.0.0.1:\(upstream.port); } }
      """)
    for path in ["/", "/framed", "/paced"] {
      let (code, body) = try await scene.frames(port, settings: [4: 100]) { client in
        client.send(.get(1, path))
        // The upstream has closed before the client takes more.
        let early = try client.settle().filter { $0.kind == .data && $0.stream == 1 }
        client.send(.windowUpdate(1, 60_000))
        let answer = try client.response(on: 1)
        return (answer.resetCode, early.flatMap(\.payload) + answer.body)
      }
      #expect(code == .internalError && Pattern.equal(body, Pattern.bytes(50_000)), "\(path): \(body.count)")
    }
  }
}
