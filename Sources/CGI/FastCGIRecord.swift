internal import Bytes

/// Records of FastCGI 1.0 (https://fastcgi-archives.github.io/FastCGI_Specification.html), as sallyport writes them.
///
/// Every request has the number 1, because a connection carries one request at a time.
enum FastCGIRecord {
  enum Kind: UInt8 {
    case begin = 1
    case parameters = 4
    case stdin = 5
  }

  static let version: UInt8 = 1
  static let request: UInt16 = 1
  static let headerBytes = 8
  /// The most bytes of content in one record.
  static let contentBytes = 65535

  /// Appends a BEGIN_REQUEST for a responder.
  static func appendBegin(keepsConnection: Bool, to output: inout ByteBuffer) {
    appendHeader(.begin, content: 8, padding: 0, to: &output)
    let role: UInt8 = 1
    output.append(0)
    output.append(role)
    output.append(keepsConnection ? 1 : 0)
    output.append("\0\0\0\0\0")
  }

  /// Appends a stream's bytes in as many records as they need; no record for no bytes, because it would end the stream.
  static func append(_ kind: Kind, _ bytes: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    guard let base = bytes.baseAddress, bytes.count > 0 else { return }
    // A record has a header and up to 7 bytes of padding.
    let records = bytes.count / contentBytes + 1
    output.reserve(bytes.count + records * (headerBytes + 7))
    var at = 0
    while at < bytes.count {
      let count = min(bytes.count - at, contentBytes)
      let padding = -count & 7
      appendHeader(kind, content: count, padding: padding, to: &output)
      output.append(UnsafeRawBufferPointer(start: base + at, count: count))
      for _ in 0..<padding { output.append(0) }
      at += count
    }
  }

  /// Appends parameters, each whole in one record if it fits there: php-fpm reads no parameter that goes on in another
  /// record.
  static func append(parameters bytes: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    var start = 0, at = 0
    while bytes.count - start > contentBytes, at < bytes.count {
      let next = at + size(ofParameterAt: at, bytes)
      if next - start > contentBytes, at > start {
        append(.parameters, UnsafeRawBufferPointer(rebasing: bytes[start..<at]), to: &output)
        start = at
      }
      at = next
    }
    append(.parameters, UnsafeRawBufferPointer(rebasing: bytes[start...]), to: &output)
  }

  /// The bytes that a parameter takes, with its two lengths; at most those that are left, and at least one.
  private static func size(ofParameterAt start: Int, _ bytes: UnsafeRawBufferPointer) -> Int {
    let left = bytes.count - start
    var at = start, content = 0
    for _ in 0..<2 {
      guard at < bytes.count else { return left }
      guard bytes[at] >= 128 else {
        content += Int(bytes[at])
        at += 1
        continue
      }
      guard bytes.count - at >= 4 else { return left }
      content += bytes[at..<at + 4].reduce(0) { $0 << 8 | Int($1) } & 0x7FFF_FFFF
      at += 4
    }
    return min(left, at - start + content)
  }

  /// Appends the empty record that ends a stream.
  static func appendEnd(of kind: Kind, to output: inout ByteBuffer) {
    appendHeader(kind, content: 0, padding: 0, to: &output)
  }

  private static func appendHeader(_ kind: Kind, content: Int, padding: Int, to output: inout ByteBuffer) {
    output.append(version)
    output.append(kind.rawValue)
    output.append(bigEndian: request)
    output.append(bigEndian: UInt16(truncatingIfNeeded: content))
    output.append(UInt8(truncatingIfNeeded: padding))
    output.append(0)
  }
}

extension ByteBuffer {
  /// Appends two bytes, the high one first.
  mutating func append(bigEndian value: UInt16) {
    append(UInt8(truncatingIfNeeded: value >> 8))
    append(UInt8(truncatingIfNeeded: value))
  }

  /// Appends two bytes, the low one first.
  mutating func append(littleEndian value: UInt16) {
    append(UInt8(truncatingIfNeeded: value))
    append(UInt8(truncatingIfNeeded: value >> 8))
  }
}
