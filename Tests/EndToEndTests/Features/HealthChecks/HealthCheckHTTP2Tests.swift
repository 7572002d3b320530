import TestSupport
import Testing

/// Checks frame by frame: each has a connection of its own, and a hostile server gains nothing.
@Suite(.staged) struct `Health checks over HTTP 2` {
  @Test func `each has a connection of its own, which ends with it`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer.serving(scene) { try $0.answer($1, "ok") }
    let address = "127.0.0.1:\(upstream.port)"
    let proxy = try await CheckedProxy(
      scene, [address], "proxy_pass http://app; proxy_http_version 2; health_check interval=20ms uri=/health mandatory;"
    )
    try await proxy.until(address, "passed", times: 5)
    let request = try #require(upstream.requests.first)
    #expect(request.method == "GET" && request.path == "/health" && request[":authority"] == "app")
    #expect(request["connection"] == nil && request["user-agent"] == "sallyport-health-check")
    let connections = upstream.requests.map(\.connection)
    #expect(Set(connections).count == connections.count)
  }

  @Test func `a body without end is cut after 64 KiB`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer.serving(scene) { connection, request in
      try connection.headers(request.stream, [(":status", "200")])
      for _ in 0..<5 { try connection.data(request.stream, [UInt8](repeating: 0x78, count: 16_000)) }
    }
    let address = "127.0.0.1:\(upstream.port)"
    let proxy = try await CheckedProxy(
      scene, [address], "proxy_pass http://app; proxy_http_version 2; health_check interval=20ms match=x;",
      http: "match x { body ~ ^x+$; }")
    try await proxy.until(address, "passed", times: 2)
    try await until("RST_STREAM") { upstream.resets.count >= 2 }
    #expect(upstream.resets.allSatisfy { $0.code == 8 })
  }

  @Test(arguments: [
    ("page", "the response isn't one of gRPC"), ("status", "the status is 503"),
    ("bare", "the response has no grpc-status"), ("word", "its grpc-status is no number"),
    ("two", "the message has 9 bytes and announces 2"), ("empty", "the response has no whole message"),
    ("reset", "upstream reset the stream"), ("bye", "while reading response header from upstream"),
  ])
  func `what is no response of the health service fails`(kind: String, reason: String) async throws {
    let scene = try Scene.ofTest(), type = ("content-type", "application/grpc")
    let upstream = try UpstreamFrameServer.serving(scene) { connection, request in
      let stream = request.stream
      let serving: [UInt8] = [0, 0, 0, 0, 2, 8, 1]
      func respond(_ body: [UInt8], _ trailers: [(String, String)], ends: Bool = false) throws {
        try connection.headers(stream, [(":status", "200"), type])
        try connection.data(stream, body, ends: ends)
        if !ends { try connection.headers(stream, trailers, ends: true) }
      }
      switch kind {
      case "page": try connection.answer(request, "all well", fields: [("content-type", "text/html")])
      case "status": try connection.headers(stream, [(":status", "503"), type, ("grpc-status", "0")], ends: true)
      case "bare": try respond(serving, [], ends: true)
      case "word": try respond(serving, [("grpc-status", "zero")])
      case "two": try respond(serving + serving, [("grpc-status", "0")])
      case "empty": try connection.headers(stream, [(":status", "200"), type, ("grpc-status", "0")], ends: true)
      case "reset": try connection.reset(stream, 2)
      default: throw Gone()
      }
    }
    let address = "127.0.0.1:\(upstream.port)"
    let proxy = try await CheckedProxy(
      scene, [address], "grpc_pass grpc://app; health_check interval=20ms type=grpc;")
    try await proxy.daemon.logged("server \(address) is down", reason)
    #expect(try await proxy.isUp(address) == false)
  }

  private struct Gone: Error {}
}
