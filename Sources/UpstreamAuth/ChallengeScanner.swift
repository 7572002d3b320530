import Bytes

/// Scans the tokens of WWW-Authenticate (RFC 9110 §5.6, §11.2). Never moves past the end; returns nil for what it can't
/// parse.
struct ChallengeScanner {
  private let bytes: [UInt8]
  /// The position, which the parser may set back.
  var at = 0

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  private var next: UInt8? { at < bytes.count ? bytes[at] : nil }
  var isAtEnd: Bool { at >= bytes.count }
  var isAtComma: Bool { next == 0x2C }
  var isAtBlank: Bool { next == 0x20 || next == 0x09 }

  mutating func skipBlanks() { while isAtBlank { at += 1 } }
  mutating func skipSeparators() { while isAtBlank || isAtComma { at += 1 } }

  mutating func token() -> [UInt8]? { run { Self.isTokenByte($0) } }

  /// Scans letters, digits and six marks, then any number of `=`, without checking the padding.
  mutating func token68() -> [UInt8]? {
    guard var token = run({ ASCII.isLetterOrDigit($0) || Self.token68Marks.contains($0) }) else { return nil }
    if let padding = run({ $0 == 0x3D }) { token += padding }
    return token
  }

  /// Scans a name with its `=`. Blanks around the `=` are bad whitespace, which a recipient accepts.
  mutating func parameterName() -> [UInt8]? {
    guard let name = token() else { return nil }
    skipBlanks()
    guard next == 0x3D else { return nil }
    at += 1
    skipBlanks()
    return name
  }

  /// Scans a token or a quoted string.
  mutating func value() -> [UInt8]? { next == 0x22 ? quotedString() : token() }

  private mutating func quotedString() -> [UInt8]? {
    at += 1
    var value: [UInt8] = []
    while let byte = next {
      at += 1
      switch byte {
      case 0x22: return value
      case 0x5C:
        guard let escaped = next, Self.isText(escaped) else { return nil }
        at += 1
        value.append(escaped)
      default:
        guard Self.isText(byte) else { return nil }
        value.append(byte)
      }
    }
    return nil
  }

  private mutating func run(_ belongs: (UInt8) -> Bool) -> [UInt8]? {
    let start = at
    while let byte = next, belongs(byte) { at += 1 }
    return at > start ? Array(bytes[start..<at]) : nil
  }

  private static let token68Marks = Array("-._~+/".utf8)
  private static let tokenMarks = Array("!#$%&'*+-.^_`|~".utf8)
  private static func isTokenByte(_ byte: UInt8) -> Bool { ASCII.isLetterOrDigit(byte) || tokenMarks.contains(byte) }
  /// Whether a field value may contain the byte.
  private static func isText(_ byte: UInt8) -> Bool { byte >= 0x20 && byte != 0x7F || byte == 0x09 }
}

extension ASCII {
  static func isLetterOrDigit(_ byte: UInt8) -> Bool { isDigit(byte) || lower(byte) &- 97 < 26 }
}
