import Bytes
import HTTP

/// What whoever changes the coding of a response's body reads and changes in its head.
extension OutgoingResponseHead {
  /// The value of a field, empty without it. `name`: as in `$sent_http_…`.
  func text(of name: StaticString) -> [UInt8] {
    var value = ByteBuffer()
    append(variableName: UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), to: &value)
    return Array(value.readable)
  }

  /// The media type without parameters, lower-case.
  var mediaType: [UInt8] { text(of: "content_type").prefix { $0 != 0x3B }.map { ASCII.lower($0) } }

  /// Whether a field that is a list has the element, with or without a value.
  func list(_ name: StaticString, has element: String) -> Bool {
    text(of: name).split(separator: 0x2C).contains { part in
      let word = part.drop { $0 == 0x20 || $0 == 0x09 }.prefix { $0 != 0x20 && $0 != 0x09 && $0 != 0x3D && $0 != 0x3B }
      return word.map { ASCII.lower($0) }.elementsEqual(element.utf8)
    }
  }

  /// `Cache-Control: no-transform`, which a proxy must heed (RFC 9111 §5.2.2.6).
  var forbidsTransformation: Bool { list("cache_control", has: "no-transform") }

  /// Takes back what holds of the former bytes only: ranges, digests (RFC 9530), and a tag that says the bytes are the same
  /// (RFC 9110 §8.8.1).
  func becomeRecoded() {
    removeFactsOfBytes()
    weakenTag()
  }

  /// Removes ranges and digests, which hold of the former bytes only.
  func removeFactsOfBytes() {
    for name: StaticString in ["Accept-Ranges", "Content-Digest", "Repr-Digest", "Digest", "Content-MD5"] {
      remove(name)
    }
  }

  /// Makes a tag weak, because it was made for other bytes.
  func weakenTag() {
    let tag = text(of: "etag")
    if tag.isEmpty || tag.starts(with: [0x57, 0x2F]) { return }
    remove("ETag")
    if tag.first == 0x22 { ([0x57, 0x2F] + tag).withUnsafeBytes { _ = add("ETag", $0) } }
  }
}
