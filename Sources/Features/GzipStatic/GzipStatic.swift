import Forward
import HTTP
import Language
import Observability
import Traffic

/// gzip_static (nginx: ngx_http_gzip_static_module): files that were compressed earlier, beside those that are asked for.
struct GzipStatic: FeatureSettings, LocationFeature {
  enum Mode: String, Sendable {
    case off, on
    /// Also for clients that don't accept gzip, which `gunzip` may serve.
    case always
  }

  var mode = Mode.off
  var clients = GzipClients()

  static let chapter = Chapter.compression

  static let rows: [Row<GzipStatic>] = [
    .choice(
      "gzip_static", .everyHTTP, [Mode.off, .on, .always], \.mode,
      "Sends `FILE.gz` in place of `FILE` with `Content-Encoding: gzip`, to clients that accept gzip by `gzip_http_version`,"
        + " `gzip_proxied` and `gzip_disable`; `always` to all. Its time, size and ETag are those of `FILE.gz`; ranges are"
        + " ignored, and nobody compares the two files. An `alias` that names one file has no such file beside it.",
      example: "gzip_static on;", trust: .none)
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> GzipStatic? {
    var files = GzipStatic(level.scope, &builder)
    guard files.mode != .off else { return nil }
    files.clients = GzipClients.rows.read(level.scope, &builder)
    return files
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.fileHooks?.variant = CompressedFiles(self)
  }
}

/// `gzip_static` of a location in one worker.
private final class CompressedFiles: FileVariant {
  private let settings: GzipStatic

  init(_ settings: GzipStatic) {
    self.settings = settings
    super.init(suffix: ".gz", coding: "gzip")
  }

  override func use(for exchange: Exchange) -> Use {
    if settings.mode == .always || settings.clients.accept(exchange, isFile: true, beforeHead: true) { return .sent }
    return settings.clients.sendsVary ? .told : .ignored
  }

  /// As in nginx, a response that each client gets in one form says nothing.
  override func tell(_ exchange: Exchange) {
    if settings.mode == .on { settings.clients.addVary(to: exchange.response) }
  }
}
