import TestSupport
import Testing

/// sallyport and a real nginx with the same http block, asked the same.
struct NginxTwin: Sendable {
  let scene: Scene
  let ours: UInt16
  let theirs: UInt16

  /// In `http`, `LISTEN` is the address of each one's server.
  init(_ scene: Scene, _ http: String) async throws {
    self.scene = scene
    (ours, theirs) = try (scene.port(), scene.port())
    func block(_ port: UInt16) -> String { http.replacing("LISTEN", with: "127.0.0.1:\(port)") }
    _ = try await NginxUpstream.start(scene, name: "twin", ports: [theirs], block(theirs))
    // One process of each, so that both count the failures of a server in one place.
    let text = configuration(block(ours)).replacing("worker_processes 2", with: "worker_processes 1")
    _ = try await Sallyport.start(scene, text)
  }

  /// A request for a path, after which the connection closes.
  static func get(_ path: String, _ fields: String...) -> String {
    let lines = ["GET \(path) HTTP/1.1", "Host: h", "Connection: close"] + fields
    return lines.joined(separator: "\r\n") + "\r\n\r\n"
  }

  /// Sends this to both, and compares all that comes until the connections close.
  func compare(_ request: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
    let (mine, yours) = try await (answer(ours, request), answer(theirs, request))
    #expect(mine == yours, "\(request.prefix(200))", sourceLocation: sourceLocation)
  }

  /// Compares responses that tell the time: again, if the second has changed meanwhile.
  func compareInOneSecond(_ request: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
    for _ in 0..<5 {
      if try await answer(ours, request) == answer(theirs, request) { return }
    }
    try await compare(request, sourceLocation: sourceLocation)
  }

  /// What sallyport answers.
  func ask(_ request: String) async throws -> String { try await answer(ours, request) }

  private func answer(_ port: UInt16, _ request: String) async throws -> String {
    let bytes = try await scene.talk(port) { wire in
      try wire.write(request)
      return try wire.readToEnd()
    }
    return Self.plain(String(decoding: bytes, as: UTF8.self)).replacing("\(port)", with: "PORT")
  }

  /// Without what must differ: the product, the time, the order of fields, and so the length of a standard page. nginx
  /// calls a 302 by two names, and statuses that it has no name for by none.
  private static func plain(_ text: String) -> String {
    text.replacing("\r\n", with: "\n").replacing(#/(?m)^Date: .*GMT$/#, with: "Date: now")
      .replacing(#/boundary=\d{20}/#, with: "boundary").replacing(#/(?m)^--\d{20}/#, with: "--boundary")
      .replacing(#/(nginx|sallyport)\/[0-9.]+/#, with: "product").replacing("302 Found", with: "302 Moved Temporarily")
      .replacing(#/(?m)^HTTP/1\.1 (20[35]|300)\b.*$/#) { "HTTP/1.1 \($0.output.1)" }
      .split(separator: #/(?=HTTP/1\.1 \d)/#, omittingEmptySubsequences: false).map(sorted).joined()
  }

  private static func sorted(_ response: Substring) -> String {
    guard let end = response.firstRange(of: "\n\n") else { return String(response) }
    let lines = response[..<end.lowerBound].split(separator: "\n")
    let body = response[end.upperBound...]
    let fields = lines.dropFirst().filter { !(body.contains("<hr>") && $0.hasPrefix("Content-Length")) }.sorted()
    return (lines.prefix(1) + fields).joined(separator: "\n") + "\n\n" + body
  }
}
