import Bytes
import HTTP
import Observability

/// A field of `add_header` or `add_trailer`.
struct LiveField {
  let name: [UInt8]
  let value: LiveTemplate
  let always: Bool
  /// ETag and Last-Modified: as in nginx, the field replaces that of the response, and an empty value removes it.
  let replaces: Bool

  init(_ field: AddedField) {
    name = field.name
    value = LiveTemplate(field.value)
    always = field.always
    let id = name.withUnsafeBytes { FieldName.known($0) }
    replaces = id == .etag || id == .lastModified
  }
}

/// What a location adds to responses: `expires`, `add_header`, `add_trailer`, `charset`.
struct ConfiguredFields {
  let exchange: Exchange
  private var location: LiveLocation { exchange.location }
  private var response: OutgoingResponseHead { exchange.response }

  /// Sets the configured fields of the head; without `always`, only for the statuses that nginx lists.
  func add() {
    let isUsual = hasUsualStatus
    if isUsual, let expires = location.expires { expires.set(for: exchange) }
    for field in location.addedFields where isUsual || field.always {
      // The value isn't built in the head's own storage, because a variable may read that head.
      var value = ByteBuffer()
      field.value.append(exchange, to: &value)
      if field.replaces { field.name.withUnsafeBytes { response.remove($0) } }
      guard !value.isEmpty else { continue }
      FieldValue.makeValid(&value, from: 0)
      _ = field.name.withUnsafeBytes { response.add($0, value.readable) }
    }
    // As in nginx, `$sent_http_content_type` in the lines above is the type without it.
    location.charset?.set(for: exchange)
    makeRoomForTrailers(isUsual)
  }

  private var hasUsualStatus: Bool {
    switch response.status {
    case 200, 201, 204, 206, 301, 302, 303, 304, 307, 308: true
    default: false
    }
  }

  /// In HTTP/1.1, trailers need chunked framing, so the length is not announced. HTTP/1.0 gets none.
  private func makeRoomForTrailers(_ isUsual: Bool) {
    guard case .length = response.body, location.addedTrailers.contains(where: { isUsual || $0.always }) else { return }
    response.expectsTrailers = true
    if exchange.head.version == .http11, location.limits.chunkedResponses { response.body = .stream }
  }

  /// The upstream's trailers, if the client gets them, and those of `add_trailer`.
  func trailers(after trailers: Trailers?) -> Trailers? {
    guard exchange.withStream({ $0.takesTrailers }) == true else { return trailers }
    let isUsual = hasUsualStatus
    var all = trailers
    for field in location.addedTrailers where isUsual || field.always {
      var value = ByteBuffer()
      field.value.append(exchange, to: &value)
      guard !value.isEmpty else { continue }
      FieldValue.makeValid(&value, from: 0)
      all = Trailers(adding: [(field.name, Array(value.readable))], to: all)
      // As in nginx, `$sent_trailer_…` of a later line has it.
      exchange.didSendTrailers(all)
    }
    return all
  }
}
