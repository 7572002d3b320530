import Bytes
import HTTP

/// What filters of bodies ask of a response's fields, and change in them.
enum ResponseFields {
  /// The value of the field whose name maps to this variable (nginx's `$sent_http_NAME`); empty without one.
  static func value(_ name: StaticString, of outgoing: OutgoingResponseHead) -> [UInt8] {
    var value = ByteBuffer()
    outgoing.append(
      variableName: UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), to: &value)
    return Array(value.readable)
  }

  /// The type without parameters, lower-case.
  static func type(of outgoing: OutgoingResponseHead) -> [UInt8] {
    value("content_type", of: outgoing).prefix { $0 != 0x3B }.map { ASCII.lower($0) }
  }

  /// Removes the fields that are true of a body's former bytes alone.
  static func removeFactsOfBytes(of outgoing: OutgoingResponseHead) {
    for name: StaticString in ["Accept-Ranges", "Content-MD5", "Content-Digest", "Repr-Digest"] {
      outgoing.remove(name)
    }
  }

  /// A changed body has other bytes than the tag was made for: a weak tag says so (RFC 9110 §8.8.1).
  static func weakenTag(of outgoing: OutgoingResponseHead) {
    let tag = value("etag", of: outgoing)
    if tag.isEmpty || tag.starts(with: [0x57, 0x2F]) { return }
    outgoing.remove("ETag")
    if tag.first == 0x22 { ([0x57, 0x2F] + tag).withUnsafeBytes { _ = outgoing.add("ETag", $0) } }
  }
}
