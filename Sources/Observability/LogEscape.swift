public import Bytes

/// Escapes a value that a peer chose, for an access line (`log_format escape=`).
///
/// Each function copies plain runs and escapes the rest. Except with `none`, no value can end a line.
public enum LogEscape {
  /// Writes `"`, `\`, bytes under 0x20 and from 0x7F on as `\xXX`: nginx's `escape=default`.
  public static func `default`(_ value: UnsafeRawBufferPointer, _ line: inout ByteBuffer) {
    append(value, to: &line, where: { isPlain($0) && $0 < 0x7F }, otherwise: appendHex)
  }

  /// Escapes what a JSON string may not contain (RFC 8259 §7) and nothing else: nginx's `escape=json`.
  public static func json(_ value: UnsafeRawBufferPointer, _ line: inout ByteBuffer) {
    append(value, to: &line, where: isPlain) { byte, line in
      switch byte {
      case UInt8(ascii: "\""): line.append("\\\"")
      case UInt8(ascii: "\\"): line.append("\\\\")
      case 0x08: line.append("\\b")
      case 0x09: line.append("\\t")
      case 0x0A: line.append("\\n")
      case 0x0C: line.append("\\f")
      case 0x0D: line.append("\\r")
      default:
        line.append("\\u00")
        line.append(hexDigit(byte >> 4))
        line.append(hexDigit(byte & 15))
      }
    }
  }

  /// Escapes a text that a command prints. A terminal would obey control characters (Unicode's Cc: up to U+001F, U+007F
  /// to U+009F), so each becomes `\xHH`.
  package static func visible(_ text: String) -> String {
    guard text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else { return text }
    return text.unicodeScalars.map { scalar in
      guard scalar.properties.generalCategory == .control else { return String(scalar) }
      let digits = String(scalar.value, radix: 16, uppercase: true)
      return "\\x" + (digits.utf8.count < 2 ? "0" : "") + digits
    }.joined()
  }

  /// Copies the value unchanged: nginx's `escape=none`. A line feed in the value then ends the line.
  public static func none(_ value: UnsafeRawBufferPointer, _ line: inout ByteBuffer) { line.append(value) }

  @inline(__always) private static func isPlain(_ byte: UInt8) -> Bool {
    byte >= 0x20 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
  }

  @inline(__always) private static func append(
    _ value: UnsafeRawBufferPointer, to line: inout ByteBuffer, where plain: (UInt8) -> Bool,
    otherwise escape: (UInt8, inout ByteBuffer) -> Void
  ) {
    var start = 0
    for index in value.indices where !plain(value[index]) {
      line.append(UnsafeRawBufferPointer(rebasing: value[start..<index]))
      escape(value[index], &line)
      start = index + 1
    }
    line.append(UnsafeRawBufferPointer(rebasing: value[start...]))
  }

  static func appendHex(_ byte: UInt8, to line: inout ByteBuffer) {
    line.append("\\x")
    line.append(hexDigit(byte >> 4))
    line.append(hexDigit(byte & 15))
  }

  private static func hexDigit(_ value: UInt8) -> UInt8 { value < 10 ? 48 + value : 55 + value }
}
