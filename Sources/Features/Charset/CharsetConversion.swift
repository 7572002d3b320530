import Bytes
import Forward
import HTTP
import Language
import Observability
import Traffic

/// The conversion of bodies to the charset that `charset` names. Its rows are among those of `Charset`, whose place among the
/// features is that of the field: bodies are converted before they are compressed.
struct CharsetConversion: LocationFeature {
  private let charset: Charset

  static let chapter = Chapter.fields
  static let directives: [DirectiveEntry] = []

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> CharsetConversion? {
    // `Charset` reports what is wrong with the lines.
    let before = builder.diagnostics
    let charset = Charset(level.scope, &builder)
    builder.diagnostics = before
    return charset.converts ? CharsetConversion(charset: charset) : nil
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    if let name = charset.name {
      let maps = makers.generation.http[CharsetMaps.self]
      parts.filters.append(CharsetConversionStart(charset, name, maps.tables))
    }
  }
}

/// `charset` of a location in one worker whose bodies may be of another charset: decides which responses are converted.
final class CharsetConversionStart: ResponseFilter {
  private let name: CompiledTemplate
  private let source: CompiledTemplate?
  private let types: Set<[UInt8]>?
  private let overrides: Bool
  private let tables: [CharsetMaps.Pair: CharsetTable]

  init(_ charset: Charset, _ name: Template, _ tables: [CharsetMaps.Pair: CharsetTable]) {
    self.name = name.compiled
    source = charset.source?.compiled
    types = charset.types
    overrides = charset.overrides
    self.tables = tables
  }

  private enum Plan {
    case leave
    /// The response is in this charset already, or nobody knows in which.
    case name(NamedType, [UInt8])
    case convert(NamedType, [UInt8], CharsetTable)
    /// No `charset_map` has the two.
    case unknown(CharsetMaps.Pair)
  }

  override func begin(_ exchange: Exchange) {
    let outgoing = exchange.response
    switch plan(exchange) {
    case .leave: break
    case .unknown(let pair):
      exchange.log(.error, "no \"charset_map\" between the charsets \"\(pair.source)\" and \"\(pair.result)\"")
    case .name(let type, let charset): type.name(charset, in: outgoing)
    case .convert(let type, let charset, let table):
      type.name(charset, in: outgoing)
      outgoing.becomeRecoded()
      if !table.keepsLength {
        if case .none = outgoing.body { outgoing.body = .none(announced: nil) } else { outgoing.body = .stream }
      }
      if case .none = outgoing.body { return }
      exchange.append(ConvertedBody(exchange, CharsetConverter(table)))
    }
  }

  override func changesBytes(ofFile exchange: Exchange) -> Bool {
    if case .convert = plan(exchange) { true } else { false }
  }

  private func plan(_ exchange: Exchange) -> Plan {
    let outgoing = exchange.response
    guard let type = NamedType(of: outgoing), type.charset.isEmpty ? type.isOf(types) : overrides else { return .leave }
    let result = CharsetName.value(name, exchange)
    if result.isEmpty { return .leave }
    let from = type.charset.isEmpty ? source.map { CharsetName.value($0, exchange) } ?? [] : type.charset
    let pair = CharsetMaps.Pair(source: Self.key(from), result: Self.key(result))
    if from.isEmpty || pair.source == pair.result { return .name(type, result) }
    // As in nginx, a redirect has no charset; and neither a coded body nor a part of one can be converted.
    guard ![206, 301, 302].contains(outgoing.status), exchange.handler?.isCompressible ?? true,
      outgoing.text(of: "content_encoding").isEmpty
    else { return .leave }
    return tables[pair].map { .convert(type, result, $0) } ?? .unknown(pair)
  }

  private static func key(_ name: [UInt8]) -> String { String(decoding: name.map(ASCII.lower), as: UTF8.self) }
}

/// Converts the body of one response as it comes.
private final class ConvertedBody: BodyFilter {
  private var converter: CharsetConverter

  init(_ exchange: Exchange, _ converter: CharsetConverter) {
    self.converter = converter
    super.init(exchange)
  }

  override func send(_ bytes: UnsafeRawBufferPointer) {
    var output = ByteBuffer()
    converter.convert(bytes, to: &output)
    if !output.isEmpty { pass(output.readable) }
  }

  override func finish(_ end: BodyEnd) {
    var output = ByteBuffer()
    converter.finish(to: &output)
    if !output.isEmpty { pass(output.readable) }
    if !isStopped { pass(end) }
  }
}
