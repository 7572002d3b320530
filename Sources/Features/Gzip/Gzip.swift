import Forward
import HTTP
import Language
import Observability
import Traffic

/// gzip (nginx: ngx_http_gzip_module): which responses of a location are compressed.
///
/// The folder is the whole feature: the directives and what they set here, what happens to a response in `GzipFilter`, and
/// the body on its way in `ResponseCompressor`.
struct Gzip: FeatureSettings, LocationFeature {
  var isOn = false
  var level = 1
  var minLength: UInt64 = 20
  /// Lower-case.
  var types: Set<[UInt8]> = [Array("text/html".utf8)]
  /// `gzip_types *`
  var takesAnyType = false
  var clients = GzipClients()

  static let chapter = Chapter.compression

  // MARK: Directives

  private static let levels = DirectiveContexts.everyHTTP

  private static let on = Row<Gzip>.flag(
    "gzip", levels.union(.locationIf), \.isOn,
    "Compresses responses for clients that accept it. Over TLS, responses of upstreams to clients with a certificate, a"
      + " Cookie or Authorization, and responses with Set-Cookie, stay as they are.", example: "gzip on;",
    trust: .none)

  static let rows: [Row<Gzip>] = [
    on,
    .words(
      "gzip_types", levels, usage: "TYPE … | *", initial: "text/html",
      "The types that are compressed, and text/html in any case.", example: "gzip_types text/css application/json;",
      trust: .none
    ) { gzip, word, _ in
      if word.text == "*" {
        gzip.takesAnyType = true
      } else {
        gzip.types.insert(Array(word.text.lowercased().utf8))
      }
    },
    .number(
      "gzip_comp_level", levels, 1...9, \.level, "How much work goes into the compression.",
      example: "gzip_comp_level 5;", trust: .none),
    .size(
      "gzip_min_length", levels, \.minLength,
      "The least length of a response that is compressed, if the length is known.", example: "gzip_min_length 1k;",
      trust: .none),
    .inert("gzip_buffers", levels, because: "compressed bytes are sent as they come"),
    .inert("gzip_window", levels, because: "zlib's memory depends on the length of the response"),
    .inert("gzip_hash", levels, because: "zlib's memory depends on the length of the response"),
    .inert("gzip_no_buffer", levels, because: "compressed bytes are sent as they come"),
    .inert("postpone_gzipping", levels, because: "compressed bytes are sent as they come"),
  ]

  static let directives = rows.entries + GzipClients.rows.entries

  static let variables = [
    FeatureVariable("gzip_ratio", "The size of the body divided by what `gzip` made of it.") {
      GzipFilter.appendRatio(of: $0, to: &$1)
    }
  ]

  // MARK: Effect

  /// The settings of a level; nil: nothing is compressed there, and no fault of its lines is one.
  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> Gzip? {
    let before = builder.diagnostics
    var gzip = Gzip(level.scope, &builder)
    gzip.clients = GzipClients.rows.read(level.scope, &builder)
    if gzip.isOn { return gzip }
    builder.diagnostics = before
    return nil
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.filters.append(GzipFilter(self)) }

  /// Tells, for a server with TLS, that responses to clients with an identity stay as they are.
  static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder) {
    guard block.isTLS else { return }
    let scope = block.scope
    let first = block.root.withNested.first { location in
      location[UpstreamPass.self] != nil && location[Gzip.self] != nil
    }
    guard let first else { return }
    builder.diagnostics.append(
      Diagnostic(
        .notice, at: on.flag(in: scope) == true ? on.line(in: scope)?.location : first.location,
        "over TLS, \"gzip\" leaves responses to clients with a certificate, a Cookie or Authorization as they are",
        hint:
          "the size of a compressed response can tell its secrets (BREACH); the upstream may compress what is public"))
  }
}
