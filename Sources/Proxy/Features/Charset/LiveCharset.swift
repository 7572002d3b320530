import Bytes
import HTTP

/// `charset`: names the charset in the Content-Type of responses that say none. sallyport converts no bodies.
struct LiveCharset {
  private let name: LiveTemplate
  private let types: Set<[UInt8]>?

  init(_ settings: CharsetSettings) { (name, types) = (LiveTemplate(settings.name), settings.types) }

  /// A byte of the names that IANA registers (RFC 2978 §2.3), without the marks that could end a parameter.
  private static func isNameByte(_ byte: UInt8) -> Bool {
    (byte | 0x20) &- 97 < 26 || byte &- 48 < 10 || "-_.:+".utf8.contains(byte)
  }

  /// A type with parameters stays as it is. So does that of a 301 or 302, as in nginx.
  func set(for exchange: Exchange) {
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
