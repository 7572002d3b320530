import Bytes
import Forward
import HTTP
import Traffic

/// `sub_filter` of a location in one worker: decides which responses are changed, and begins that.
final class SubFilterStart: ResponseFilter {
  private let settings: SubFilter
  private let texts: [CompiledTemplate]
  let replacements: [CompiledTemplate]
  /// The table of texts without variables; nil: a text has some.
  private let table: SearchTable?

  init(_ settings: SubFilter) {
    self.settings = settings
    texts = settings.pairs.map(\.text.compiled)
    replacements = settings.pairs.map(\.replacement.compiled)
    let constants = settings.pairs.compactMap(\.text.constant)
    table = constants.count == texts.count ? SearchTable(constants) : nil
  }

  override func begin(_ exchange: Exchange) {
    guard isOfKind(exchange) else { return }
    var numbers = Array(texts.indices), table = table
    if table == nil {
      let values = texts.map { $0.bytes(exchange) }
      // As in nginx, an empty value is looked for nowhere.
      numbers = numbers.filter { !values[$0].isEmpty }
      if numbers.isEmpty { return }
      table = SearchTable(numbers.map { values[$0] })
    }
    let outgoing = exchange.response
    describe(outgoing)
    if case .none = outgoing.body { return outgoing.body = .none(announced: nil) }
    outgoing.body = .stream
    guard let table else { return }
    exchange.append(
      Substitution(exchange, TextReplacer(table, isOnce: settings.isOnce), numbers.map { replacements[$0] }))
  }

  /// As in nginx, a changed response has no ranges.
  override func changesBytes(ofFile exchange: Exchange) -> Bool { isOfKind(exchange) }

  /// A part of a body can't be changed: Content-Range says where it was in the upstream's. Neither can a coded one.
  private func isOfKind(_ exchange: Exchange) -> Bool {
    let outgoing = exchange.response
    guard outgoing.status != 206, exchange.handler?.isCompressible ?? true else { return false }
    if outgoing.body == .length(0) || outgoing.body == .none(announced: 0) { return false }
    guard outgoing.text(of: "content_encoding").isEmpty else { return false }
    let type = outgoing.mediaType
    return !type.isEmpty && settings.types?.contains(type) ?? true
  }

  private func describe(_ outgoing: OutgoingResponseHead) {
    outgoing.removeFactsOfBytes()
    if settings.keepsModified { return outgoing.weakenTag() }
    outgoing.remove("Last-Modified")
    outgoing.remove("ETag")
  }
}
