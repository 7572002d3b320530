import Glibc
import Synchronization
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `What an upstream refuses over HTTP 2` {
  /// Reads this many heads, whole or not.
  private static func heads(_ connection: UpstreamFrameConnection, _ count: Int) throws -> [UpstreamFrameRequest] {
    var heads: [UpstreamFrameRequest] = []
    while heads.count < count, let head = try connection.head() { heads.append(head) }
    return heads
  }

  private static func paths(_ count: Int) -> [String] { (0..<count).map { "/\($0)" } }

  @Test(arguments: ["GET", "POST"])
  func `what a GOAWAY says was not processed is sent again, once and whole`(method: String) async throws {
    let scene = try Scene.ofTest(), isIn = Flag()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      if connection.number == 0 {
        let first = try Self.heads(connection, 1)[0]
        isIn.raise()
        let second = try Self.heads(connection, 1)[0]
        try connection.goAway(last: second.stream - 2)
        // What was processed goes on.
        try connection.answer(first, "first \(connection.number)")
        return try connection.readToEnd()
      }
      try connection.serve { try connection.answer($0, "\($0.method) \($0.text) \(connection.number)") }
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    async let first = proxy.curl("/first")
    try await until("the first request") { isIn.isRaised }
    let result = try await proxy.curl("/second", ["-X", method], input: Array("body".utf8))
    #expect(result.status == 200 && result.text == "\(method) body 1")
    #expect(try await first.text == "first 0")
    #expect(upstream.connections == 2)
    #expect(try await proxy.curl("/third").text.hasSuffix(" 1"))
  }

  @Test func `what one GOAWAY refuses goes on over one other connection`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      if connection.number == 0 {
        _ = try Self.heads(connection, 12)
        try connection.goAway(last: 0)
        return try connection.readToEnd()
      }
      try connection.serve { try connection.answer($0, "\(connection.number)") }
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    #expect(try await proxy.curl(Self.paths(12)).map(\.text) == [String](repeating: "1", count: 12))
    #expect(upstream.connections == 2)
  }

  @Test func `requests beyond the last stream of a GOAWAY go on elsewhere, while that stream is in progress`()
    async throws
  {
    let scene = try Scene.ofTest(), isIn = Flag(), goOn = Flag()
    let upstream = try UpstreamFrameServer(scene) { connection in
      if connection.number > 0 {
        try connection.open()
        return try connection.serve { try connection.answer($0, "\(connection.number)") }
      }
      // The first requests come before the proxy knows the limit of one stream.
      isIn.wait()
      try connection.open([(3, 1)])
      let first = try Self.heads(connection, 1)[0]
      try connection.goAway(last: first.stream)
      // The others are served while the first is in progress.
      goOn.wait()
      try connection.answer(first, "first")
      try connection.readToEnd()
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    async let results = proxy.curl(Self.paths(4))
    try await until("the connection") { upstream.connections == 1 }
    isIn.raise()
    try await until("the other requests") { upstream.paths.count == 4 }
    goOn.raise()
    #expect(try await results.map(\.text).sorted() == ["1", "1", "1", "first"])
  }

  @Test(arguments: ["GET", "POST"])
  func `a stream that is refused is sent again once`(method: String) async throws {
    let scene = try Scene.ofTest(), count = Mutex(0)
    let upstream = try UpstreamFrameServer.serving(scene) { connection, request in
      if count.withLock({
        $0 += 1; return $0
      }) == 1 {
        return try connection.reset(request.stream, 7)
      }
      if request.path == "/never" { return try connection.reset(request.stream, 7) }
      try connection.answer(request, "\(request.text)!")
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    #expect(try await proxy.curl("/once", ["-X", method], input: Array("body".utf8)).text == "body!")
    #expect(upstream.paths == ["/once", "/once"])
    #expect(try await proxy.curl("/never", ["-X", method], input: Array("body".utf8)).status == 502)
    #expect(upstream.paths.count == 4)
  }

  /// RFC 9113 §8.7 lets any request be sent again, and what was sent of its body is at hand.
  @Test(
    .ofHTTP1, arguments: ["proxy_pass http://framed; proxy_request_buffering off;", "grpc_pass grpc://framed;"],
    [true, false])
  func `a small body that goes on as it comes is sent again, too`(pass: String, isReset: Bool) async throws {
    let scene = try Scene.ofTest(), count = Mutex(0)
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      while let request = try connection.request() {
        let turn = count.withLock {
          $0 += 1
          return $0
        }
        if turn > 1 {
          try connection.answer(request, "\(request.text) \(request.trailers.map(\.value))")
        } else if isReset {
          try connection.reset(request.stream, 7)
        } else {
          try connection.goAway(last: 0)
          return try connection.readToEnd()
        }
      }
    }
    let proxy = try await FramedProxy(
      scene, to: upstream, server: "http2 on; location /as { \(pass) }")
    let response = try await scene.frames(proxy.port) { client in
      client.send(.post(1, "/as", [("te", "trailers")]), .data(1, "hello", ends: false))
      client.send(.headers(1, HPACK.block([("x-sum", "5")])))
      return try client.response(on: 1)
    }
    #expect(response.status == 200 && response.text == "hello [\"5\"]", "\(response)")
    #expect(upstream.paths == ["/as", "/as"])
  }

  @Test(.ofHTTP1) func `a body whose rest is still to come is sent again from its start, and goes on`() async throws {
    let scene = try Scene.ofTest(), isAgain = Flag()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      if connection.number == 0 {
        guard try connection.head() != nil else { return }
        try connection.readData(5)
        try connection.goAway(last: 0)
        return try connection.readToEnd()
      }
      guard try connection.head() != nil else { return }
      try connection.readData(5)
      isAgain.raise()
      try connection.serve { try connection.answer($0, $0.text) }
    }
    let proxy = try await FramedProxy(scene, to: upstream, location: "proxy_request_buffering off;")
    let text = try await proxy.talk { wire in
      try wire.write("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nfirst")
      isAgain.wait()
      try wire.write("after")
      return try wire.response().text
    }
    #expect(text == "firstafter")
  }

  @Test func `a body of which more was sent than is kept is not sent again`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      while let request = try connection.head() {
        try connection.readData(100_000)
        try connection.reset(request.stream, 7)
      }
    }
    let proxy = try await FramedProxy(
      scene, to: upstream, location: "proxy_request_buffering off; client_max_body_size 0;")
    let body = [UInt8](repeating: 0x61, count: 200_000)
    #expect(try await proxy.curl("/", ["-X", "POST"], input: body).status == 502)
    #expect(upstream.connections == 1)
  }

  @Test(arguments: [0, 1, 2, 8, 11, 13, 99] as [UInt32])
  func `a stream that is reset otherwise is no reason to send a POST again`(code: UInt32) async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer.serving(scene) { connection, request in
      if request.path == "/alive" { return try connection.answer(request, "alive") }
      try connection.reset(request.stream, code)
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    #expect(try await proxy.curl("/", input: Array("body".utf8)).status == 502)
    #expect(upstream.paths == ["/"])
    try await proxy.lives()
    #expect(upstream.connections == 1)
  }

  /// nginx takes a RST_STREAM for an invalid head.
  @Test(arguments: [("error", 502), ("invalid_header", 200), ("off", 502)])
  func `a stream that is reset is another server's turn by invalid_header`(
    condition: String, status: Int
  ) async throws {
    let scene = try Scene.ofTest()
    let resetting = try UpstreamFrameServer.serving(scene) { try $0.reset($1.stream, 2) }
    let other = try UpstreamFrameServer.serving(scene) { try $0.answer($1, "alive") }
    let proxy = try await FramedProxy(
      scene, to: resetting, other, location: "proxy_next_upstream \(condition);")
    #expect(try await proxy.curl("/").status == status)
    #expect(resetting.paths.count == 1)
  }

  /// A reset is the server's own word, not a dead connection that says nothing about the server.
  @Test func `resets on a kept session count against the server`() async throws {
    let scene = try Scene.ofTest()
    let resetting = try UpstreamFrameServer.serving(scene) { connection, request in
      if request.path == "/alive" { return try connection.answer(request, "alive") }
      try connection.reset(request.stream, 2)
    }
    let other = try UpstreamFrameServer.serving(scene) { try $0.answer($1, "alive") }
    let proxy = try await FramedProxy(scene, to: resetting, other)
    try await proxy.lives()
    try await proxy.lives()
    try await proxy.lives()
    let before = resetting.paths.count
    #expect(try await proxy.curl("/", input: Array("body".utf8)).status == (resetting.paths.count > before ? 502 : 200))
    for _ in 0..<6 { _ = try await proxy.curl("/", input: Array("body".utf8)) }
    #expect(resetting.paths.filter { $0 == "/" }.count == 1)
  }

  /// A refusal of an earlier attempt, or of another exchange, says nothing about a response that came.
  @Test func `a POST that was refused and then answered by 503 is not sent a third time`() async throws {
    let scene = try Scene.ofTest(), count = Mutex(0)
    let answer: @Sendable (UpstreamFrameConnection, UpstreamFrameRequest) throws -> Void = { connection, request in
      if count.withLock({
        $0 += 1; return $0
      }) == 1 {
        return try connection.reset(request.stream, 7)
      }
      try connection.answer(request, "no", status: 503)
    }
    let first = try UpstreamFrameServer.serving(scene, [], answer),
      second = try UpstreamFrameServer.serving(scene, [], answer)
    let proxy = try await FramedProxy(scene, to: first, second, location: "proxy_next_upstream error http_503;")
    #expect(try await proxy.curl("/", input: Array("body".utf8)).status == 503)
    #expect(first.paths.count + second.paths.count == 2)
    // The next exchange, with the objects of the first one.
    #expect(try await proxy.curl("/", input: Array("body".utf8)).status == 503)
    #expect(first.paths.count + second.paths.count == 3)
  }
}
