import Forward
import HTTP
import Language
import Observability
import Traffic

/// empty_gif (nginx: ngx_http_empty_gif_module): a transparent image of one pixel.
struct EmptyGIF: ContentFeature {
  static let chapter = Chapter.files

  static let directives: [DirectiveEntry] = [
    .local(
      "empty_gif", .location, .none, "Responds with a transparent image of one pixel, to GET and HEAD.",
      example: "empty_gif;")
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> EmptyGIF? {
    guard let line = line(in: level.scope) else { return nil }
    builder.refuseSecondContent(at: line, level.scope)
    return EmptyGIF()
  }

  var policy: [(label: String, text: String)] { [("responds", "with an empty image")] }

  func words(_ http: HTTPSettings) -> String { "responds with an empty image" }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.content = EmptyGIFContent() }
}

private final class EmptyGIFContent: LiveContent {
  override func handler(for worker: Worker) -> ContentHandler? { EmptyGIFHandler() }
}

private final class EmptyGIFHandler: ContentHandler {
  /// GIF89a: one pixel of a table of two colours, the second of which is transparent.
  private static let image: [UInt8] =
    Array("GIF89a".utf8) + [1, 0, 1, 0, 0x80, 1, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF]
    + [0x21, 0xF9, 4, 1, 0, 0, 1, 0] + [0x2C, 0, 0, 0, 0, 1, 0, 1, 0, 0] + [2, 2, 0x4C, 1, 0] + [0x3B]
  /// nginx's.
  private static let modified: Int64 = 23_349_600
  private static let modifiedText = Array("Mon, 28 Sep 1970 06:00:00 GMT".utf8)

  override var mayReflect: Bool { false }

  override func start(_ exchange: Exchange) {
    let method = FileRequest.method(exchange)
    guard method == .get || method == .head else { return exchange.fail(ErrorResponse(405)) }
    let outcome = Preconditions(etag: nil, modified: Self.modified, comparison: .exact).judge(exchange.head)
    if outcome == .failed { return exchange.fail(ErrorResponse(412)) }
    Self.modifiedText.withUnsafeBytes { exchange.setOwnField("Last-Modified", $0) }
    if outcome == .notModified {
      exchange.answer(status: 304, type: "image/gif", body: UnsafeRawBufferPointer(start: nil, count: 0))
    } else {
      Self.image.withUnsafeBytes { exchange.answer(status: 200, type: "image/gif", body: $0) }
    }
  }
}
