import Bytes
import Forward
import HTTP
import Language
import Traffic

/// charset (nginx: ngx_http_charset_filter_module), of which sallyport has the name alone: it converts no bodies.
struct Charset: FeatureSettings, LocationFeature {
  /// An empty value adds nothing; nil: `off`.
  var name: Template?
  /// The types that get it, in lower case; nil: all (`charset_types *`).
  var types: Set<[UInt8]>? = Set(standardTypes.map { Array($0.utf8) })

  // MARK: Directives

  static let chapter = Chapter.fields
  private static let levels = DirectiveContexts.everyHTTP

  private static let standardTypes = [
    "text/html", "text/xml", "text/plain", "text/vnd.wap.wml", "application/javascript", "application/rss+xml",
  ]

  static let rows: [Row<Charset>] = [
    .line(
      "charset", levels.union(.locationIf), .words(1...1, "CHARSET | off"), initial: "off",
      "The charset in the Content-Type of responses that say none, with variables if need be. Bodies are never converted.",
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
  ]

  var isInEffect: Bool { name != nil }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    if let name { parts.headFilters.append(LiveCharset(name, types)) }
  }
}

/// `charset`: names the charset in the Content-Type of responses that say none. sallyport converts no bodies.
final class LiveCharset: HeadFilter {
  private let name: CompiledTemplate
  private let types: Set<[UInt8]>?

  init(_ name: Template, _ types: Set<[UInt8]>?) { (self.name, self.types) = (name.compiled, types) }

  /// A byte of the names that IANA registers (RFC 2978 §2.3), without the marks that could end a parameter.
  private static func isNameByte(_ byte: UInt8) -> Bool {
    (byte | 0x20) &- 97 < 26 || byte &- 48 < 10 || "-_.:+".utf8.contains(byte)
  }

  /// A type with parameters stays as it is. So does that of a 301 or 302, as in nginx.
  override func change(_ exchange: Exchange) {
    let outgoing = exchange.response
    if outgoing.status == 301 || outgoing.status == 302 { return }
    var type = ByteBuffer()
    let field: StaticString = "content_type"
    outgoing.append(
      variableName: UnsafeRawBufferPointer(start: field.utf8Start, count: field.utf8CodeUnitCount), to: &type)
    let lower = type.readable.map { ASCII.lower($0) }
    // A comma: the upstream sent several types.
    guard !lower.isEmpty, !lower.contains(0x3B), !lower.contains(0x2C), types?.contains(lower) ?? true else { return }
    var charset = ByteBuffer()
    name.append(exchange, to: &charset)
    // A value from a request can add no other parameter.
    guard !charset.isEmpty, charset.readable.allSatisfy(Self.isNameByte) else { return }
    type.append("; charset=")
    type.append(charset.readable)
    outgoing.remove("Content-Type")
    _ = outgoing.add("Content-Type", type.readable)
  }
}
