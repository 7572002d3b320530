internal import Bytes

/// What a response head begins with.
public enum ResponseStart: Sendable, Equatable {
  /// A status line, as in HTTP.
  case statusLine
  /// The first field. Status, if it is among the fields, has the status (RFC 3875 §6.3.3): the head of a CGI program.
  case fields
  /// Either. nginx takes both from SCGI and uwsgi servers.
  case statusLineOrFields

  /// Whether a head has a status line. nil: more bytes must come first.
  @inline(__always)
  func hasStatusLine(_ bytes: UnsafeRawBufferPointer) -> Bool? {
    switch self {
    case .statusLine: return true
    case .fields: return false
    case .statusLineOrFields:
      // No field name has a slash.
      let name: StaticString = "HTTP/"
      for index in 0..<min(bytes.count, name.utf8CodeUnitCount) where bytes[index] != name.utf8Start[index] {
        return false
      }
      return bytes.count < name.utf8CodeUnitCount ? nil : true
    }
  }
}

extension ResponseHead {
  /// Finds the status of a CGI program's response, as nginx does: in the status line, in Status, or 302 for a head with
  /// Location, or 200.
  ///
  /// What carries the response frames it, so Transfer-Encoding means nothing. Like nginx, sallyport ignores `chunked`, and
  /// refuses any other coding, and Content-Length beside it. An upgrade and a kept connection mean nothing either.
  func becomeProgramResponse(_ base: UnsafeRawPointer, _ facts: inout MessageFacts) throws(HeadError) {
    if facts.repeated.contains(.status) { throw .repeatedStatusField }
    if parsed.status == 0 {
      if let field = storage.list.elements.first(.status) {
        try read(status: field.value, base)
      } else {
        parsed.status = facts.present.contains(.location) ? 302 : 200
      }
    }
    if parsed.status < 200 { throw .interimStatus }
    switch facts.framing.coding {
    case .none: break
    case .chunked: if facts.framing.length != nil { throw .lengthAndTransferEncoding }
    case .unknown: throw .unknownTransferCoding
    }
    facts.framing.coding = .none
    facts.upgrade = nil
  }

  /// Reads `404 Not Found`, or `404`.
  private func read(status value: ByteRange, _ base: UnsafeRawPointer) throws(HeadError) {
    let bytes = at(base, value)
    guard bytes.count >= 3, bytes.count == 3 || bytes[3] == 0x20 else { throw .badStatusField }
    var status: UInt16 = 0
    for index in 0..<3 {
      guard ASCII.isDigit(bytes[index]) else { throw .badStatusField }
      status = status &* 10 &+ UInt16(bytes[index] &- 48)
    }
    guard status >= 100 else { throw .badStatusField }
    parsed.status = status
    if bytes.count > 4 { parsed.reason = ByteRange(start: Int(value.start) + 4, count: bytes.count - 4) }
  }
}
