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

/// What a location adds to the heads of responses: `expires`, `add_header`, `charset`.
struct ConfiguredFields {
  let exchange: Exchange
  private var location: LiveLocation { exchange.location }
  private var response: OutgoingResponseHead { exchange.response }

  /// Sets the configured fields of the head; without `always`, only for the statuses that nginx lists.
  func add() {
    let isUsual = Self.isUsual(response.status)
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
  }

  /// The statuses whose responses get fields without `always`, as in nginx.
  static func isUsual(_ status: UInt16) -> Bool {
    switch status {
    case 200, 201, 204, 206, 301, 302, 303, 304, 307, 308: true
    default: false
    }
  }
}
