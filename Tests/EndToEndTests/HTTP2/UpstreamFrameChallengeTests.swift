import TestSupport
import Testing

@Suite(.staged) struct `A challenge of an upstream of HTTP 2` {
  /// Challenges requests without credentials, and sends the body of the others back behind the number of the connection.
  private static func upstream(
    _ scene: Scene, _ scheme: String,
    before: @escaping @Sendable (UpstreamFrameConnection, UpstreamFrameRequest) throws -> Void = { _, _ in }
  ) throws -> UpstreamFrameServer {
    let challenge = scheme == "basic" ? #"Basic realm="r""# : #"Digest realm="r", nonce="n", qop="auth""#
    return try .serving(scene) { connection, request in
      guard request["authorization"] == nil else {
        return try connection.answer(request, "\(connection.number) \(request.text)")
      }
      try before(connection, request)
      try connection.answer(request, "who?", status: 401, fields: [("www-authenticate", challenge)])
    }
  }

  private static func proxy(_ scene: Scene, _ upstream: UpstreamFrameServer, _ scheme: String) async throws
    -> PasswordProxy
  {
    try await PasswordProxy(
      scene, workers: 1,
      """
      location / { proxy_pass http://127.0.0.1:\(upstream.port); proxy_http_version 2; proxy_auth \(scheme);
        proxy_next_upstream off; }
      """)
  }

  @Test(arguments: ["digest", "basic"], ["GET", "POST"])
  func `is answered over the same session`(scheme: String, method: String) async throws {
    let scene = try Scene.ofTest(), upstream = try Self.upstream(scene, scheme)
    let proxy = try await Self.proxy(scene, upstream, scheme)
    let body = method == "POST" ? "body" : nil
    for _ in 0..<2 {
      let result = try await proxy.ask("/", ["-X", method], input: body.map { Array($0.utf8) })
      #expect(result.status == 200 && result.text == "0 \(body ?? "")", "\(result.text)")
    }
    #expect(upstream.requests.map { $0["authorization"] != nil } == [false, true, true])
    #expect(upstream.connections == 1 && upstream.resets.isEmpty)
  }

  @Test(arguments: ["digest", "basic"], ["GET", "POST"])
  func `is answered over another session where its own ends`(scheme: String, method: String) async throws {
    let scene = try Scene.ofTest()
    let upstream = try Self.upstream(scene, scheme) { try $0.goAway(last: $1.stream) }
    let proxy = try await Self.proxy(scene, upstream, scheme)
    let body = method == "POST" ? "body" : nil
    let result = try await proxy.ask("/", ["-X", method], input: body.map { Array($0.utf8) })
    #expect(result.status == 200 && result.text == "1 \(body ?? "")", "\(result.status) \(result.text)")
    #expect(upstream.requests.map { $0["authorization"] != nil } == [false, true])
    #expect(upstream.requests.map(\.connection) == [0, 1])
    #expect(upstream.resets.isEmpty)
    #expect(!proxy.daemon.errorLog.contains("[error]"), "no attempt failed")
  }
}
