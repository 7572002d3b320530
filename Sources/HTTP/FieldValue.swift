public import Bytes

/// Checks whether bytes may be a field value (RFC 9110 §5.5).
public enum FieldValue {
  /// Returns whether the bytes may be a field value: they contain no control character except tab.
  public static func isValid(_ value: UnsafeRawBufferPointer) -> Bool {
    guard let base = value.baseAddress else { return true }
    var at = ByteScan.control(base, 0, value.count)
    while at < value.count, ByteScan.byte(base, at) == 0x09 { at = ByteScan.control(base, at + 1, value.count) }
    return at == value.count
  }

  /// Makes a space of each byte from `start` on that a field value can't have. A value from a certificate or a request
  /// can contain bytes that end a line: so a name in a certificate can't add a field, and the lines of a PEM text become
  /// one.
  public static func makeValid(_ value: inout ByteBuffer, from start: Int) {
    if isValid(UnsafeRawBufferPointer(rebasing: value.readable[start...])) { return }
    let bytes = value.mutableReadable
    var index = start
    while index < bytes.count {
      if bytes[index] < 0x20 && bytes[index] != 0x09 || bytes[index] == 0x7F { bytes[index] = 0x20 }
      index += 1
    }
  }
}
