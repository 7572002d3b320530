import Bytes
import Forward
import HTTP
import Language
import Observability
import Traffic

/// charset (nginx: ngx_http_charset_filter_module): the charset that responses name, and their conversion to it.
struct Charset: FeatureSettings, LocationFeature {
  /// An empty value adds nothing; nil: `off`.
  var name: Template?
  /// The types that get it, in lower case; nil: all (`charset_types *`).
  var types: Set<[UInt8]>? = Set(standardTypes.map { Array($0.utf8) })
  /// What the bodies of responses are in that say no charset; nil: nobody knows.
  var source: Template?
  /// `override_charset`: responses that say a charset are converted too.
  var overrides = false

  // MARK: Directives

  static let chapter = Chapter.fields
  private static let levels = DirectiveContexts.everyHTTP

  private static let standardTypes = [
    "text/html", "text/xml", "text/plain", "text/vnd.wap.wml", "application/javascript", "application/rss+xml",
  ]

  static let rows: [Row<Charset>] = [
    .line(
      "charset", levels.union(.locationIf), .words(1...1, "CHARSET | off"), initial: "off",
      "The charset in the Content-Type of responses that say none, with variables if need be. A body whose charset is known"
        + " to be another one (`source_charset`, `override_charset`) is converted, if `charset_map` has the two. Bodies with a"
        + " Content-Encoding and responses with status 206 stay as they are.",
      example: "charset utf-8;", trust: .none
    ) { $0.name = $1.text(0) == "off" ? nil : $2.template($1, 0) },
    .lines(
      "charset_types", levels, .words(1...Int.max, "TYPE … | *"), initial: standardTypes.joined(separator: " "),
      "The types of responses that get it, and text/html in any case.",
      example: "charset_types text/css application/json;", trust: .none
    ) { charset, lines, _ in
      let words = lines.flatMap(\.arguments).map { $0.text.lowercased() }
      charset.types = words.contains("*") ? nil : Set((["text/html"] + words).map { Array($0.utf8) })
    },
    .line(
      "source_charset", levels.union(.locationIf), .words(1...1, "CHARSET | off"), initial: "off",
      "The charset of bodies whose response says none, with variables if need be.",
      example: "source_charset utf-8;", trust: .none
    ) { $0.source = $1.text(0) == "off" ? nil : $2.template($1, 0) },
    .flag(
      "override_charset", levels.union(.locationIf), \.overrides,
      "Whether responses that say a charset are converted too.", example: "override_charset on;", trust: .none),
  ]

  static let directives = rows.entries + [CharsetMaps.row]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) {
    for line in CharsetMaps.row.lines(in: http) {
      var maps = builder[CharsetMaps.self]
      maps.read(line, &builder)
      builder[CharsetMaps.self] = maps
    }
  }

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    let before = builder.diagnostics
    let charset = Charset(level.scope, &builder)
    builder.diagnostics = before
    guard let name = charset.name?.text, let source = charset.source?.text, name.lowercased() != source.lowercased(),
      builder[CharsetMaps.self].tables[.init(source: source.lowercased(), result: name.lowercased())] == nil,
      let line = rows.lazy.compactMap({ $0.entry.line(in: level.scope) }).first
    else { return }
    let error = Diagnostic(
      .error, at: line.location, "no \"charset_map\" between the charsets \"\(source)\" and \"\(name)\"",
      hint: "include koi-win, koi-utf or win-utf of nginx, or write charset_map \(source) \(name) { … }")
    // Levels that inherit the line have the same fault.
    if !builder.diagnostics.contains(error) { builder.diagnostics.append(error) }
  }

  /// Whether bodies may be converted.
  var converts: Bool { name != nil && (source != nil || overrides) }

  var isInEffect: Bool { name != nil }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    if let name, !converts { parts.headFilters.append(LiveCharset(name, types)) }
  }
}

extension Template {
  /// The text of a template without variables.
  fileprivate var text: String? { constant.map { String(decoding: $0, as: UTF8.self) } }
}

/// `charset`: names the charset in the Content-Type of responses that say none.
final class LiveCharset: HeadFilter {
  private let name: CompiledTemplate
  private let types: Set<[UInt8]>?

  init(_ name: Template, _ types: Set<[UInt8]>?) { (self.name, self.types) = (name.compiled, types) }

  /// A type with parameters stays as it is. So does that of a 301 or 302, as in nginx.
  override func change(_ exchange: Exchange) {
    let type = NamedType(of: exchange.response)
    guard let type, type.charset.isEmpty, type.isOf(types) else { return }
    type.name(CharsetName.value(name, exchange), in: exchange.response)
  }
}

/// The Content-Type of a response, of which nothing is known but the charset.
struct NamedType {
  /// Without the charset.
  let type: [UInt8]
  /// Empty: it says none.
  let charset: [UInt8]

  /// nil: the response has no type, several, or one with other parameters.
  init?(of outgoing: OutgoingResponseHead) {
    let value = outgoing.text(of: "content_type")
    let parts = value.split(separator: 0x3B, maxSplits: 1, omittingEmptySubsequences: false)
    // A comma: the upstream sent several types.
    guard !value.isEmpty, !value.contains(0x2C), let type = parts.first, !type.isEmpty else { return nil }
    var charset: [UInt8] = []
    if parts.count > 1 {
      let parameter = parts[1].drop { $0 == 0x20 || $0 == 0x09 }
      let name = parameter.prefix { $0 != 0x3D }
      guard name.map(ASCII.lower) == Array("charset".utf8), parameter.count > name.count else { return nil }
      charset = parameter.dropFirst(name.count + 1).filter { $0 != 0x22 }
      guard CharsetName.isValid(charset) else { return nil }
    }
    self.type = Array(type.reversed().drop { $0 == 0x20 || $0 == 0x09 }.reversed())
    self.charset = charset
  }

  func isOf(_ types: Set<[UInt8]>?) -> Bool { types?.contains(type.map(ASCII.lower)) ?? true }

  /// Makes the response say the charset. A redirect says none, as in nginx.
  func name(_ charset: [UInt8], in outgoing: OutgoingResponseHead) {
    guard !charset.isEmpty, outgoing.status != 301, outgoing.status != 302 else { return }
    outgoing.remove("Content-Type")
    (type + Array("; charset=".utf8) + charset).withUnsafeBytes { _ = outgoing.add("Content-Type", $0) }
  }
}

/// A name of a charset that a configuration, a request or a response says.
enum CharsetName {
  /// Empty: the value names none. A value from a request can add no other parameter.
  static func value(_ name: CompiledTemplate, _ exchange: Exchange) -> [UInt8] {
    let value = name.bytes(exchange)
    return isValid(value) ? value : []
  }

  /// A byte of the names that IANA registers (RFC 2978 §2.3), without the marks that could end a parameter.
  static func isValid(_ name: [UInt8]) -> Bool {
    !name.isEmpty && name.allSatisfy { ($0 | 0x20) &- 97 < 26 || $0 &- 48 < 10 || "-_.:+".utf8.contains($0) }
  }
}
