import Bytes

/// Reads JSON (RFC 8259) front to back, strictly: the little of it that a request of two strings needs.
struct JSONReader {
  private let bytes: UnsafeRawBufferPointer
  private var at = 0

  private static let depthLimit = 16

  init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

  private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

  private mutating func skipSpace() {
    while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { at += 1 }
  }

  var isAtEnd: Bool {
    var rest = self
    rest.skipSpace()
    return rest.next == nil
  }

  /// Whether this stands next, white space before it left out; then it is read.
  mutating func take(_ mark: Unicode.Scalar) -> Bool {
    skipSpace()
    guard next == UInt8(truncatingIfNeeded: mark.value) else { return false }
    at += 1
    return true
  }

  /// A string's characters as UTF-8; nil when none stands next, or a malformed one.
  mutating func string() -> [UInt8]? {
    guard take("\"") else { return nil }
    var text: [UInt8] = []
    while let byte = next {
      at += 1
      switch byte {
      case UInt8(ascii: "\""): return String(validating: text, as: UTF8.self) == nil ? nil : text
      case UInt8(ascii: "\\"):
        guard let scalar = escape() else { return nil }
        text += Array(String(Character(scalar)).utf8)
      case ..<0x20: return nil
      default: text.append(byte)
      }
    }
    return nil
  }

  private mutating func escape() -> Unicode.Scalar? {
    guard let byte = next else { return nil }
    at += 1
    switch byte {
    case UInt8(ascii: "\""): return "\""
    case UInt8(ascii: "\\"): return "\\"
    case UInt8(ascii: "/"): return "/"
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{C}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"):
      guard let unit = codeUnit() else { return nil }
      guard (0xD800..<0xDC00).contains(unit) else { return Unicode.Scalar(unit) }
      // The first of a surrogate pair: its second must follow.
      guard next == UInt8(ascii: "\\") else { return nil }
      at += 1
      guard next == UInt8(ascii: "u") else { return nil }
      at += 1
      guard let second = codeUnit(), (0xDC00..<0xE000).contains(second) else { return nil }
      return Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (second - 0xDC00))
    default: return nil
    }
  }

  private mutating func codeUnit() -> UInt32? {
    guard bytes.count - at >= 4 else { return nil }
    var unit: UInt32 = 0
    for _ in 0..<4 {
      guard let digit = ASCII.hexValue(bytes[at]) else { return nil }
      unit = unit << 4 | UInt32(digit)
      at += 1
    }
    return unit
  }

  /// Passes over a value of any kind; false when none stands next.
  mutating func skipValue(depth: Int = 0) -> Bool {
    guard depth < Self.depthLimit else { return false }
    skipSpace()
    switch next {
    case UInt8(ascii: "\""): return string() != nil
    case UInt8(ascii: "{"): return skipList(until: "}", depth) { $0.string() != nil && $0.take(":") }
    case UInt8(ascii: "["): return skipList(until: "]", depth) { _ in true }
    default: return skipWord()
    }
  }

  private mutating func skipList(
    until end: Unicode.Scalar, _ depth: Int, name: (inout JSONReader) -> Bool
  ) -> Bool {
    at += 1
    var isFirst = true
    while !take(end) {
      guard isFirst || take(","), name(&self), skipValue(depth: depth + 1) else { return false }
      isFirst = false
    }
    return true
  }

  /// A number, true, false or null.
  private mutating func skipWord() -> Bool {
    let start = at
    while let byte = next, byte > 0x20, ![UInt8](",]}:\"[{".utf8).contains(byte) { at += 1 }
    let word = String(decoding: bytes[start..<at], as: UTF8.self)
    if ["true", "false", "null"].contains(word) { return true }
    return word.wholeMatch(of: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/) != nil
  }
}
