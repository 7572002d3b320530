import TestSupport
import Testing

/// Clients that end their side after a whole request and read on, as `nc -N` does: what they asked for comes in full
/// (RFC 9112 §9.6).
@Suite(.staged) struct `Clients that have ended their side` {
  private static let tries = 30

  /// The body of the response to a request with which the client ends its side, or a moment later.
  private static func ask(_ port: UInt16, _ path: String, isAtOnce: Bool) throws -> String {
    let wire = try Wire.dial(port: port)
    defer { wire.close() }
    try wire.write("GET \(path) HTTP/1.1\r\nHost: h\r\n\r\n")
    if isAtOnce { wire.finishWriting() }
    let first = try wire.readSome(1)
    if !isAtOnce { wire.finishWriting() }
    let text = String(decoding: try first + wire.readToEnd(), as: UTF8.self)
    return text.firstRange(of: "\r\n\r\n").map { String(text[$0.upperBound...]) } ?? ""
  }

  @Test(arguments: ["/small", "/large", "/none", "/up/late", "/both"])
  func `get the whole response`(path: String) async throws {
    let scene = try Scene.ofTest(), port = try scene.port(), folder = try scene.makeFolder("www")
    let small = String(repeating: "s", count: 200), large = String(repeating: "l", count: 300_000)
    try scene.write("www/small", text: small)
    try scene.write("www/large", text: large)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      try wire.answer(large, closing: true)
    }
    let daemon = try await Sallyport.serve(
      scene,
      """
      limit_req_zone $binary_remote_addr zone=z:1m rate=500r/s;
      server { listen 127.0.0.1:\(port); root \(folder); error_page 404 /small;
        location /up { proxy_pass http://127.0.0.1:\(upstream.port); proxy_ignore_client_abort on; }
        location /both { limit_req zone=z burst=1000; alias \(folder)/large; } }
      """)
    let expected = path == "/small" || path == "/none" ? small : large
    for isAtOnce in [true, false] {
      for turn in 0..<Self.tries {
        let body = try await offPool { try Self.ask(port, path, isAtOnce: isAtOnce) }
        #expect(body.utf8.count == expected.utf8.count && body == expected, "\(turn): \(body.utf8.count) bytes")
      }
    }
    #expect(!daemon.errorLog.contains("prematurely closed"))
  }
}
