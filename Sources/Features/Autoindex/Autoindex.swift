import Forward
import Language
import Observability
import Traffic

/// autoindex (nginx: ngx_http_autoindex_module): lists folders that have no index.
struct Autoindex: FeatureSettings, LocationFeature {
  enum Format: String, Sendable {
    case html, xml, json
    /// JSON as the argument of the function that the query's `callback` names.
    case jsonp
  }

  var isOn = false
  var format = Format.html
  /// In HTML: to the byte, not in K, M and G.
  var showsExactSizes = true
  /// In HTML: the times are those of the server's time zone, not of UTC.
  var showsLocalTime = false

  static let chapter = Chapter.files

  private static let levels = DirectiveContexts.everyHTTP

  static let rows: [Row<Autoindex>] = [
    .flag(
      "autoindex", levels, \.isOn,
      "Lists a folder without index file. The list leaves out names that begin with a dot and symbolic links, because no"
        + " request gets what they lead to. A folder with more than 10000 entries gets status 403.",
      example: "autoindex on;"),
    .choice(
      "autoindex_format", levels, [Format.html, .xml, .json, .jsonp], \.format,
      "The form of the list. `jsonp` calls the function that the argument `callback` of the request names.",
      example: "autoindex_format json;", trust: .none),
    .flag(
      "autoindex_exact_size", levels, \.showsExactSizes,
      "Whether a list in HTML has sizes in bytes; otherwise they are rounded to K, M and G.",
      example: "autoindex_exact_size off;", trust: .none),
    .flag(
      "autoindex_localtime", levels, \.showsLocalTime,
      "Whether a list in HTML has times of the server's time zone, not of UTC.", example: "autoindex_localtime on;",
      trust: .none),
  ]

  var isInEffect: Bool { isOn }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.fileHooks?.listing = FolderListing(self) }
}
