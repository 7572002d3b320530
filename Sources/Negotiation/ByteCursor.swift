/// Reads a message from its front, and nothing beyond its end: the subscript of raw memory has no bounds check in a
/// release build, so every read of a peer's numbers passes here. Numbers are in network order.
struct ByteCursor {
  private let bytes: UnsafeRawBufferPointer
  private var position = 0

  init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

  /// The number of bytes not yet read.
  var left: Int { bytes.count - position }
  var isAtEnd: Bool { left == 0 }

  mutating func uint8() -> UInt8? {
    guard position < bytes.count else { return nil }
    defer { position += 1 }
    return bytes[position]
  }

  mutating func uint16() -> UInt16? {
    guard let high = uint8(), let low = uint8() else { return nil }
    return UInt16(high) << 8 | UInt16(low)
  }

  mutating func uint24() -> UInt32? {
    guard let high = uint8(), let low = uint16() else { return nil }
    return UInt32(high) << 16 | UInt32(low)
  }

  mutating func uint32() -> UInt32? {
    guard let high = uint16(), let low = uint16() else { return nil }
    return UInt32(high) << 16 | UInt32(low)
  }

  /// Returns nil, and reads nothing, if there are fewer.
  mutating func take(_ count: Int) -> UnsafeRawBufferPointer? {
    guard count >= 0, count <= left else { return nil }
    defer { position += count }
    return UnsafeRawBufferPointer(rebasing: bytes[position..<(position + count)])
  }

  /// Bytes after their number in one byte, as TLS writes short lists (RFC 8446 §3.4).
  mutating func list8() -> UnsafeRawBufferPointer? { uint8().flatMap { take(Int($0)) } }

  /// Bytes after their number in two bytes.
  mutating func list16() -> UnsafeRawBufferPointer? { uint16().flatMap { take(Int($0)) } }
}
