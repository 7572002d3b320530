public import Bytes

/// Escapes a value that a peer chose, for an access line (`log_format escape=`).
///
/// Each function copies plain runs and escapes the rest. Except with `none`, no value can end a line.
public enum LogEscape {
  /// Writes `"`, `\`, bytes under 0x20 and from 0x7F on as `\xXX`: nginx's `escape=default`.
  public static func `default`(_ value: UnsafeRawBufferPointer, _ line: inout ByteBuffer) {
    append(value, to: &line, where: { isPlain($0) && $0 < 0x7F }, otherwise: appendHex)
  }

  /// A name that a peer sent, for a line of the error log.
  package static func text(_ bytes: [UInt8]) -> String {
    var line = ByteBuffer()
    bytes.withUnsafeBytes { `default`($0, &line) }
    return line.readable.text
  }

  /// Escapes what a JSON string may not contain (RFC 8259 §7, §8.1): nginx's `escape=json`, and besides bytes that are not
  /// UTF-8, which nginx copies. A line with such a byte is no JSON, and a collector that drops it hides the request.
  public static func json(_ value: UnsafeRawBufferPointer, _ line: inout ByteBuffer) {
    var start = 0
    var index = 0
    while index < value.count {
      let length = value[index] < 0x80 ? (isPlain(value[index]) ? 1 : 0) : sequenceLength(value, index)
      if length > 0 {
        index += length
        continue
      }
      line.append(UnsafeRawBufferPointer(rebasing: value[start..<index]))
      appendJSON(value[index], to: &line)
      index += 1
      start = index
    }
    line.append(UnsafeRawBufferPointer(rebasing: value[start...]))
  }

  private static func appendJSON(_ byte: UInt8, to line: inout ByteBuffer) {
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

  /// The length of the UTF-8 sequence at an index (RFC 3629 §4); 0 if there is none.
  private static func sequenceLength(_ value: UnsafeRawBufferPointer, _ index: Int) -> Int {
    let first = value[index]
    let length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2
    guard first >= 0xC2, first <= 0xF4, value.count - index >= length else { return 0 }
    let second: ClosedRange<UInt8> =
      switch first {
      case 0xE0: 0xA0...0xBF
      case 0xED: 0x80...0x9F
      case 0xF0: 0x90...0xBF
      case 0xF4: 0x80...0x8F
      default: 0x80...0xBF
      }
    guard second.contains(value[index + 1]) else { return 0 }
    return value[(index + 2)..<(index + length)].allSatisfy { $0 & 0xC0 == 0x80 } ? length : 0
  }

  /// Whether `default` would copy the value unchanged.
  public static func isPlain(_ value: UnsafeRawBufferPointer) -> Bool {
    // 0x7F plus one, and everything above, has the highest bit.
    allWords(of: value) { ~$0 & ~($0 &+ ones) & highBits == highBits }
  }

  /// Whether the value is ASCII that `json` would copy unchanged.
  public static func isPlainJSON(_ value: UnsafeRawBufferPointer) -> Bool {
    allWords(of: value) { $0 & highBits == 0 }
  }

  private static let ones: UInt64 = 0x0101_0101_0101_0101
  private static let highBits: UInt64 = 0x8080_8080_8080_8080

  /// Whether no byte is a control character under 0x20, a quotation mark or a backslash, and each eight bytes meet
  /// `condition`. Bytes are tested eight at a time: `(x - n) & ~x & highBits` is not zero if a byte is less than n.
  @inline(__always) private static func allWords(
    of value: UnsafeRawBufferPointer, _ condition: (UInt64) -> Bool
  ) -> Bool {
    @inline(__always) func isFine(_ word: UInt64) -> Bool {
      let quote = word ^ (ones &* 0x22)
      let backslash = word ^ (ones &* 0x5C)
      let found = ((word &- (ones &* 0x20)) & ~word) | ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash)
      return found & highBits == 0 && condition(word)
    }
    var index = 0
    while value.count &- index >= 8 {
      guard isFine(value.loadUnaligned(fromByteOffset: index, as: UInt64.self)) else { return false }
      index &+= 8
    }
    guard index < value.count else { return true }
    // The last eight, some of them again.
    if value.count >= 8 { return isFine(value.loadUnaligned(fromByteOffset: value.count &- 8, as: UInt64.self)) }
    // The rest, after letters.
    var rest = ones &* 0x61
    while index < value.count {
      rest = rest << 8 | UInt64(value[index])
      index &+= 1
    }
    return isFine(rest)
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
