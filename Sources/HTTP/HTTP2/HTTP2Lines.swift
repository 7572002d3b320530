internal import Bytes

/// What both builders of heads share: how a field of HTTP/2 is checked, and kept in the form of HTTP/1.1.
enum HTTP2Lines {
  /// Refuses a name that is no token or has upper case (RFC 9113 §8.2.1), and a value that would end its line.
  @inline(__always)
  static func check(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws(HeadError) {
    for byte in name {
      guard ByteSet.token.contains(byte), byte &- 0x41 >= 26 else { throw .badFieldName }
    }
    guard let base = value.baseAddress, value.count > 0 else { return }
    if !FieldValue.isValid(value) {
      let fault = value.first { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F }
      throw fault.map { FieldLines.fault(of: $0) } ?? .controlCharacter
    }
    let first = ByteScan.byte(base, 0), last = ByteScan.byte(base, value.count &- 1)
    if first == 0x20 || first == 0x09 || last == 0x20 || last == 0x09 { throw .whitespaceAroundValue }
  }

  static func append(_ name: StaticString, _ value: StaticString, to storage: inout HeadStorage) {
    append(name, UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount), to: &storage)
  }

  static func append(_ name: StaticString, _ value: UnsafeRawBufferPointer, to storage: inout HeadStorage) {
    append(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), value, to: &storage)
  }

  /// Appends `name: value` CR LF, and the field's ranges.
  @inline(__always)
  static func append(
    _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, to storage: inout HeadStorage
  ) {
    let start = storage.buffer.count
    storage.buffer.append(name)
    storage.buffer.append(": ")
    storage.buffer.append(value)
    storage.buffer.append("\r\n")
    storage.list.append(
      Field(
        name: ByteRange(start: start, count: name.count),
        value: ByteRange(start: start &+ name.count &+ 2, count: value.count), id: .other, isHopByHop: false))
  }
}
