import Forward
import Language
import Observability
import Traffic

/// sub_filter (nginx: ngx_http_sub_module): texts of responses that are replaced by others.
///
/// The folder is the whole feature: the directives here, which responses are changed in `SubFilterStart`, the body on its way
/// in `Substitution`, and the machine that finds and replaces in `TextReplacer`.
struct SubFilter: FeatureSettings, LocationFeature {
  struct Pair: Sendable, Hashable {
    var text: Template
    var replacement: Template
  }

  var pairs: [Pair] = []
  var isOnce = true
  var keepsModified = false
  /// Lower-case; nil: all (`sub_filter_types *`).
  var types: Set<[UInt8]>? = [Array("text/html".utf8)]

  static let chapter = Chapter.fields

  // MARK: Directives

  private static let levels = DirectiveContexts.everyHTTP

  static let rows: [Row<SubFilter>] = [
    .lines(
      "sub_filter", levels, .words(2...2, "TEXT REPLACEMENT"),
      "Replaces a text in the bodies of responses, whatever the case of its letters. Both can have variables. Of several"
        + " lines, the text that begins first in the body is replaced. Bodies with a Content-Encoding and responses with"
        + " status 206 stay as they are.",
      example: "sub_filter 'http://app.internal/' 'https://$host/';", trust: .none
    ) { filter, lines, builder in
      for line in lines {
        if line.text(0).isEmpty {
          builder.error(line.place(0), "the text to look for in \"\(line.name)\" is empty", hint: "name a text")
        }
        filter.pairs.append(Pair(text: builder.template(line, 0), replacement: builder.template(line, 1)))
      }
    },
    .words(
      "sub_filter_types", levels, usage: "TYPE … | *", initial: "text/html",
      "The types of responses that are changed, and text/html in any case.", example: "sub_filter_types text/css;",
      trust: .none
    ) { filter, word, _ in
      if word.text == "*" { filter.types = nil } else { filter.types?.insert(Array(word.text.lowercased().utf8)) }
    },
    .flag(
      "sub_filter_once", levels, \.isOnce, "Whether each text is replaced once in a response, or always.",
      example: "sub_filter_once off;", trust: .none),
    .flag(
      "sub_filter_last_modified", levels, \.keepsModified,
      "Whether changed responses keep Last-Modified, and ETag as a weak one.", example: "sub_filter_last_modified on;",
      trust: .none),
  ]

  var isInEffect: Bool { !pairs.isEmpty }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.filters.append(SubFilterStart(self)) }
}
