import Forward
import Language
import Observability
import Traffic

/// gunzip (nginx: ngx_http_gunzip_module): responses with the coding gzip are decompressed for clients that don't take it.
struct Gunzip: FeatureSettings, LocationFeature {
  var isOn = false
  var clients = GzipClients()

  static let chapter = Chapter.compression

  private static let levels = DirectiveContexts.everyHTTP

  static let rows: [Row<Gunzip>] = [
    .flag(
      "gunzip", levels, \.isOn,
      "Decompresses responses with `Content-Encoding: gzip` for clients that don't accept it, by the same rules as"
        + " `gzip_static`. A response with `Cache-Control: no-transform` of an upstream stays as it is, and so does a part of one"
        + " (status 206). Damaged gzip ends the response incomplete.", example: "gunzip on;", trust: .none),
    .inert("gunzip_buffers", levels, because: "decompressed bytes are sent as they come"),
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> Gunzip? {
    var gunzip = Gunzip(level.scope, &builder)
    guard gunzip.isOn else { return nil }
    gunzip.clients = GzipClients.rows.read(level.scope, &builder)
    return gunzip
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.filters.append(GunzipFilter(self)) }
}
