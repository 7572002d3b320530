import Bytes
import Forward
import HTTP
import Language
import Traffic

/// `add_trailer` (nginx: ngx_http_headers_module)
struct AddTrailer: LocationFeature {
  private let fields: [AddedField]

  static let chapter = Chapter.fields
  private static let name = "add_trailer"
  private static let levels = DirectiveContexts.everyHTTP

  static let directives: [DirectiveEntry] = [
    .list(
      name, levels.union(.locationIf), .words(2...3, "FIELD VALUE [always]"), "",
      "Adds a field after the body. A response of HTTP/1.1 is then chunked.",
      example: "add_trailer X-Request-Time $request_time;"),
    .value(
      "add_trailer_inherit", levels, AddHeader.inheritance, "on",
      "What a level gets of the outer `add_trailer` lines: `merge` puts them before its own, `off` takes none.",
      example: "add_trailer_inherit merge;"),
  ]

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> AddTrailer? {
    let fields = AddedField.read(level.scope, name, &builder)
    return fields.isEmpty ? nil : AddTrailer(fields: fields)
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.filters.append(AddedTrailers(fields)) }
}

/// `add_trailer` of a location.
final class AddedTrailers: ResponseFilter {
  private let fields: [LiveField]
  /// Those with `always`, for the statuses whose responses get no others.
  private let everywhere: [LiveField]

  init(_ fields: [AddedField]) {
    self.fields = fields.map { LiveField($0) }
    everywhere = self.fields.filter(\.always)
  }

  /// In HTTP/1.1, trailers need chunked framing, so the length is not announced. HTTP/1.0 gets none.
  override func begin(_ exchange: Exchange) {
    let response = exchange.response
    if case .none = response.body { return }
    let these = AddHeader.isUsual(response.status) ? fields : everywhere
    if these.isEmpty { return }
    if case .length = response.body {
      response.expectsTrailers = true
      if exchange.head.version == .http11, exchange.location.limits.chunkedResponses { response.body = .stream }
    }
    exchange.append(Filter(exchange, these))
  }

  /// Adds the trailers of one response, after those of the upstream, when its last byte has gone.
  private final class Filter: BodyFilter {
    private let fields: [LiveField]

    init(_ exchange: Exchange, _ fields: [LiveField]) {
      self.fields = fields
      super.init(exchange)
    }

    override func finish(_ end: BodyEnd) {
      guard case .whole(var trailers) = end, exchange.withStream({ $0.takesTrailers }) == true else { return pass(end) }
      for field in fields {
        // As in nginx, `$sent_trailer_…` has those of the lines before.
        exchange.didSendTrailers(trailers)
        var value = ByteBuffer()
        field.value.append(exchange, to: &value)
        guard !value.isEmpty else { continue }
        FieldValue.makeValid(&value, from: 0)
        trailers = Trailers(adding: [(field.name, Array(value.readable))], to: trailers)
      }
      pass(.whole(trailers))
    }
  }
}
