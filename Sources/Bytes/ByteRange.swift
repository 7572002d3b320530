public import Glibc

/// A range of bytes in another object's storage: start and count, never a pointer.
///
/// A parsed head keeps its bytes once and refers to parts of them, without a String or an allocation.
public struct ByteRange: Sendable, Equatable, BitwiseCopyable {
  public var start: UInt32
  public var count: UInt32

  @inlinable public init(start: Int, count: Int) {
    self.start = UInt32(truncatingIfNeeded: start)
    self.count = UInt32(truncatingIfNeeded: count)
  }

  public static let empty = ByteRange(start: 0, count: 0)
  @inlinable public var isEmpty: Bool { count == 0 }
  @inlinable public var end: Int { Int(start) + Int(count) }
}

extension UnsafeRawBufferPointer {
  /// Returns the bytes of a range, or no bytes when the range is not inside.
  @inlinable public subscript(range: ByteRange) -> UnsafeRawBufferPointer {
    @inline(__always) get {
      guard range.end <= count, let base = baseAddress else { return UnsafeRawBufferPointer(start: nil, count: 0) }
      return UnsafeRawBufferPointer(start: base + Int(range.start), count: Int(range.count))
    }
  }

  /// Whether the bytes equal ASCII text.
  @inlinable public func equals(_ text: StaticString) -> Bool {
    equals(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  /// Whether the bytes are equal.
  @inlinable public func equals(_ other: UnsafeRawBufferPointer) -> Bool {
    guard count == other.count else { return false }
    guard let left = baseAddress, let right = other.baseAddress else { return true }
    return memcmp(left, right, count) == 0
  }

  /// Whether the bytes are equal with folded ASCII letters. `lowercase` must be in lower case.
  @inlinable public func equalsIgnoringCase(_ lowercase: StaticString) -> Bool {
    equalsIgnoringCase(
      UnsafeRawBufferPointer(start: lowercase.utf8Start, count: lowercase.utf8CodeUnitCount))
  }

  /// Whether the bytes are equal with the ASCII letters of both folded.
  @inlinable public func equalsIgnoringCase(_ other: UnsafeRawBufferPointer) -> Bool {
    guard count == other.count else { return false }
    for index in 0..<count where ASCII.lower(self[index]) != ASCII.lower(other[index]) { return false }
    return true
  }

  /// The bytes as text, for messages and settings, not for the hot path.
  public var text: String { String(decoding: self, as: UTF8.self) }
}

/// The ASCII tests and conversions that the protocols use.
public enum ASCII {
  @inlinable public static func lower(_ byte: UInt8) -> UInt8 {
    byte &- 65 < 26 ? byte | 0x20 : byte
  }
  @inlinable public static func upper(_ byte: UInt8) -> UInt8 {
    byte &- 97 < 26 ? byte & 0xDF : byte
  }
  @inlinable public static func isDigit(_ byte: UInt8) -> Bool { byte &- 48 < 10 }
  @inlinable public static func hexValue(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 48...57: byte - 48
    case 65...70: byte - 55
    case 97...102: byte - 87
    default: nil
    }
  }
}
