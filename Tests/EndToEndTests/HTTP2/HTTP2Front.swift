import TestSupport
import Testing

/// A daemon that speaks HTTP/2 without TLS, in front of an upstream that keeps every byte it gets: it holds the responses
/// for paths that begin with /held until `go`, and echoes everything else.
struct HTTP2Front: Sendable {
  let daemon: Sallyport
  let upstream: ScriptedUpstream
  let port: UInt16
  let scene: Scene
  let go = Flag()

  init(
    _ scene: Scene, server: String = "", location: String = "",
    upstream script: (@Sendable (Wire) throws -> Void)? = nil
  ) async throws {
    self.scene = scene
    let go = go
    scene.atEnd { go.raise() }
    upstream = try ScriptedUpstream(scene) { wire, _ in
      if let script { return try script(wire) }
      try wire.serve { request in
        if request.target.hasPrefix("/held") { go.wait() }
        try wire.echo(request)
      }
    }
    port = try scene.port()
    daemon = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port); http2 on; server_name localhost;
        \(server)
        location / { proxy_pass http://127.0.0.1:\(upstream.port); \(location) }
        location = /ok { return 200 ok; }
        location = /refused { return 403; }
        location = /metrics { metrics; }
      }
      """)
  }

  func frames<R: Sendable>(
    settings: KeyValuePairs<UInt16, UInt32> = [:], _ body: @escaping @Sendable (FrameClient) throws -> R
  ) async throws -> R {
    try await scene.frames(port, settings: settings, body)
  }

  /// Whether another client is served.
  func serves() async throws -> Bool { try await frames { try $0.get(1, "/ok").text == "ok" } }

  /// How often clients have met a limit.
  func count(of limit: String) async throws -> Int {
    let page = try await scene.page(port, "/metrics").text
    let line = page.split(separator: "\n").first { $0.hasPrefix("sallyport_http2_limits_total{limit=\"\(limit)\"}") }
    return line?.split(separator: " ").last.flatMap { Int($0) } ?? 0
  }
}

/// Frames that a client sends, and what RFC 9113 wants to come of them.
struct FrameCase: Sendable, CustomTestStringConvertible {
  enum Expected: Sendable {
    /// Stream 1 gets a 200, with this text.
    case served(String = "")
    /// Nothing comes of them.
    case ignored
    /// Ignored, or an error of stream or connection.
    case tolerated([HTTP2Frame.ErrorCode])
    /// RST_STREAM, a refusal by status, or an error of the connection (RFC 9113 §5.4.2, §8.1.1).
    case streamError([HTTP2Frame.ErrorCode])
    /// GOAWAY, and the connection ends.
    case connectionError([HTTP2Frame.ErrorCode])
  }

  var section: String
  var name: String
  var expected: Expected
  /// Sent first; the response on stream 1 is awaited.
  var before: [HTTP2Frame] = []
  var frames: [HTTP2Frame]
  var testDescription: String { "\(section) \(name)" }

  init(
    _ section: String, _ name: String, _ expected: Expected, before: [HTTP2Frame] = [], _ frames: [HTTP2Frame]
  ) {
    self.section = section
    self.name = name
    self.expected = expected
    self.before = before
    self.frames = frames
  }

  /// Plays the case, and says what came instead of what was expected.
  func fault(_ client: FrameClient) throws -> String? {
    if !before.isEmpty {
      client.send(before)
      guard try client.response(on: 1).status == 200 else { return "no response before" }
    }
    client.send(frames)
    if case .served(let text) = expected {
      let response = try client.response(on: 1)
      guard response.status == 200, text.isEmpty || response.text == text else {
        return "\(response.status) \(response.text), reset \(response.resetCode as Any), \(client.goAwayCode as Any)"
      }
      return try isAlive(client)
    }
    let seen = try client.settle()
    let reset = seen.first { $0.kind == .reset }?.errorCode
    let refused = try seen.contains { frame in
      guard frame.kind == .headers else { return false }
      let status = try HPACK.fields(of: frame.payload).first { $0.name == ":status" }?.value ?? ""
      return status.hasPrefix("4") || status.hasPrefix("5")
    }
    let came = "reset \(reset as Any), GOAWAY \(client.goAwayCode as Any), refused \(refused), ended \(client.hasEnded)"
    switch expected {
    case .served: return nil
    case .ignored: return reset == nil && !refused ? try isAlive(client) : came
    case .connectionError(let codes): return try isEnded(client, codes) ? nil : came
    case .tolerated(let codes):
      if try isEnded(client, codes) { return nil }
      return reset.map(codes.contains) ?? true ? try isAlive(client) : came
    case .streamError(let codes):
      if try isEnded(client, codes) { return nil }
      return refused || reset.map(codes.contains) == true ? try isAlive(client) : came
    }
  }

  private func isEnded(_ client: FrameClient, _ codes: [HTTP2Frame.ErrorCode]) throws -> Bool {
    guard let code = client.goAwayCode, codes.contains(code) else { return false }
    _ = try client.ending()
    return client.hasEnded
  }

  /// Whether the connection still serves requests.
  private func isAlive(_ client: FrameClient) throws -> String? {
    let last = try client.get(1001, "/ok")
    return last.text == "ok" && client.goAwayCode == nil ? nil : "the connection ended: \(client.goAwayCode as Any)"
  }
}
