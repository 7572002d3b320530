import Bytes
import Forward
import Traffic

/// Writes messages of OTLP in protobuf's encoding, which needs no library: four kinds of fields, and lengths in front.
struct SpanWriter: ~Copyable {
  private(set) var bytes = ByteBuffer()

  mutating func reset() { bytes.removeAll() }

  mutating func varint(_ number: UInt64) {
    var rest = number
    while rest >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(truncatingIfNeeded: rest))
  }

  /// Bytes that `varint` writes.
  static func size(of number: Int) -> Int {
    number < 0x80 ? 1 : number < 0x4000 ? 2 : number < 0x20_0000 ? 3 : number < 0x1000_0000 ? 4 : 5
  }

  mutating func field(_ number: UInt64, varint value: UInt64) {
    varint(number << 3)
    varint(value)
  }

  mutating func field(_ number: UInt64, fixed64 value: UInt64) {
    varint(number << 3 | 1)
    withUnsafeBytes(of: value.littleEndian) { bytes.append($0) }
  }

  mutating func field(_ number: UInt64, fixed32 value: UInt32) {
    varint(number << 3 | 5)
    withUnsafeBytes(of: value.littleEndian) { bytes.append($0) }
  }

  /// The begin of a field that has so many bytes.
  mutating func field(_ number: UInt64, length: Int) {
    varint(number << 3 | 2)
    varint(UInt64(max(0, length)))
  }

  mutating func field(_ number: UInt64, _ value: UnsafeRawBufferPointer) {
    field(number, length: value.count)
    bytes.append(value)
  }

  mutating func field(_ number: UInt64, _ value: [UInt8]) { value.withUnsafeBytes { field(number, $0) } }

  /// Octets that are given as digits.
  mutating func field(_ number: UInt64, hex digits: [UInt8]) {
    field(number, length: digits.count / 2)
    for index in stride(from: 0, to: digits.count - 1, by: 2) {
      bytes.append(Self.value(digits[index]) << 4 | Self.value(digits[index + 1]))
    }
  }

  private static func value(_ digit: UInt8) -> UInt8 { digit < 0x3A ? digit &- 0x30 : (digit | 0x20) &- 0x57 }

  // MARK: Attributes (common.v1.KeyValue)

  private static let longest = 4096

  /// Writes nothing for an empty text. Text that is no UTF-8 is repaired, because protobuf refuses it.
  mutating func attribute(_ number: UInt64, _ name: StaticString, _ value: UnsafeRawBufferPointer) {
    name.withUTF8Buffer { attribute(number, UnsafeRawBufferPointer($0), value) }
  }

  mutating func attribute(_ number: UInt64, _ name: String, _ value: [UInt8]) {
    let name = Array(name.utf8)
    name.withUnsafeBytes { name in value.withUnsafeBytes { attribute(number, name, $0) } }
  }

  private mutating func attribute(_ number: UInt64, _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    guard !value.isEmpty else { return }
    let value = UnsafeRawBufferPointer(rebasing: value.prefix(Self.longest))
    guard value.allSatisfy({ $0 < 0x80 }) else {
      let repaired = Array(String(decoding: value, as: UTF8.self).utf8)
      return repaired.withUnsafeBytes { write(number, name, $0) }
    }
    write(number, name, value)
  }

  private mutating func write(_ number: UInt64, _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    let inner = 1 + Self.size(of: value.count) + value.count
    field(number, length: 1 + Self.size(of: name.count) + name.count + 1 + Self.size(of: inner) + inner)
    field(1, name)
    field(2, length: inner)
    field(1, value)
  }

  mutating func attribute(_ number: UInt64, _ name: StaticString, integer value: Int) {
    let value = UInt64(max(0, value))
    let inner = 1 + Self.size(of: Int(clamping: min(value, 0xFFFF_FFFF)))
    name.withUTF8Buffer { name in
      field(number, length: 1 + Self.size(of: name.count) + name.count + 1 + Self.size(of: inner) + inner)
      field(1, UnsafeRawBufferPointer(name))
    }
    field(2, length: inner)
    field(3, varint: min(value, 0xFFFF_FFFF))
  }
}
