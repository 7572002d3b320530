internal import Bytes

/// Checks whether bytes may be a field value (RFC 9110 §5.5).
public enum FieldValue {
  /// Returns whether the bytes may be a field value: they contain no control character except tab.
  public static func isValid(_ value: UnsafeRawBufferPointer) -> Bool {
    guard let base = value.baseAddress else { return true }
    var at = ByteScan.control(base, 0, value.count)
    while at < value.count, ByteScan.byte(base, at) == 0x09 { at = ByteScan.control(base, at + 1, value.count) }
    return at == value.count
  }
}
