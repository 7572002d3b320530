import TestSupport
import Testing

/// sallyport and a real nginx with the same servers, and one upstream that says what reached it.
struct NginxComparison: Sendable {
  let scene: Scene
  let daemon: Sallyport
  private let ours: UInt16
  private let theirs: UInt16

  /// `http`: with PORT for the server's own port, UPSTREAM and UPSTREAM2 for addresses of upstreams, and FOLDER for a
  /// folder that both read.
  init(_ scene: Scene, _ http: String) async throws {
    self.scene = scene
    ours = try scene.port()
    theirs = try scene.port()
    let (first, second) = try (scene.port(), scene.port())
    func text(_ port: UInt16) -> String {
      http.replacing("PORT", with: "127.0.0.1:\(port)").replacing("UPSTREAM2", with: "127.0.0.1:\(second)")
        .replacing("UPSTREAM", with: "127.0.0.1:\(first)").replacing("FOLDER", with: scene.folder)
    }
    let upstreams = """
      server { listen 127.0.0.1:\(first); location / { return 200 "first $request_method $request_uri"; } }
      server { listen 127.0.0.1:\(second); location / { return 200 "second $request_method $request_uri"; } }
      """
    _ = try await NginxUpstream.start(scene, ports: [theirs, first, second], upstreams + text(theirs))
    daemon = try await Sallyport.start(scene, configuration(text(ours), level: "info"))
  }

  /// A request: what curl gets beside the path.
  struct Request: Sendable, ExpressibleByStringLiteral {
    let path: String
    let options: [String]
    init(_ path: String, _ options: String...) { (self.path, self.options) = (path, options) }
    init(_ path: String, _ options: [String]) { (self.path, self.options) = (path, options) }
    init(stringLiteral path: String) { (self.path, options) = (path, []) }
  }

  /// Expects the same status, fields and body of both.
  func expectSame(_ requests: [Request]) async throws {
    for request in requests {
      let (ours, theirs) = try await (answer(request, ours), answer(request, theirs))
      #expect(ours == theirs, "\(request.path) \(request.options)")
    }
  }

  func ask(_ path: String, _ options: String...) async throws -> CurlResult {
    try await scene.curl(["--path-as-is"] + options + ["http://127.0.0.1:\(ours)\(path)"])
  }

  /// Where sallyport serves this path.
  func url(_ path: String) -> String { "http://127.0.0.1:\(ours)\(path)" }

  private static let unequal: Set<String> = [
    "date", "server", "connection", "keep-alive", "content-length", "transfer-encoding",
  ]

  private func answer(_ request: Request, _ port: UInt16) async throws -> [String] {
    let result = try await scene.curl(
      ["--path-as-is", "--globoff"] + request.options + ["http://127.0.0.1:\(port)\(request.path)"])
    let fields = result.response.fields.filter { !Self.unequal.contains($0.name.lowercased()) }
      // HTTP/2 has no capitals in names.
      .map { "\(scene.speech == .http2 ? $0.name.lowercased() : $0.name): \($0.value)" }.sorted()
    // The standard pages differ in the product's name, and in some headings.
    var body = result.text.hasPrefix("<html>") ? "a page" : result.text
    // With -I, curl writes the head as the body.
    if body.hasPrefix("HTTP/") { body = "" }
    return ["\(result.exit) \(result.status)"] + fields.map { $0.replacing(":\(port)", with: ":PORT") }
      + [body.replacing(":\(port)", with: ":PORT")]
  }
}
