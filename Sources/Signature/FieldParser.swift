import Bytes

/// Why a text is not a structured field.
public enum FieldError: Error, Sendable, Hashable, CustomStringConvertible {
  /// At this offset in bytes.
  case malformed(at: Int)
  /// A key occurs twice. RFC 8941 lets the last one win; two readers could then see two values, so sallyport takes
  /// neither.
  case doubled([UInt8])
  case tooLong
  case tooMany

  public var description: String {
    switch self {
    case .malformed(let offset): "malformed at byte \(offset)"
    case .doubled(let key): "has the key \"\(String(decoding: key, as: UTF8.self))\" twice"
    case .tooLong: "longer than \(FieldParser.mostBytes) bytes"
    case .tooMany: "has too many members or parameters"
    }
  }
}

/// Reads structured fields (RFC 8941 §4.2), strictly, in time linear in the text.
///
/// Every count has a bound, and the grammar itself bounds the depth. The parser copies nothing but the values.
public struct FieldParser {
  public static let mostBytes = 32 * 1024
  /// Members of a dictionary or a list.
  public static let mostMembers = 64
  /// Items of an inner list.
  public static let mostItems = 64
  public static let mostParameters = 16

  private let text: [UInt8]
  private var at = 0

  public static func dictionary(_ text: [UInt8]) throws(FieldError) -> [FieldEntry] {
    var parser = try FieldParser(text)
    let entries = try parser.dictionary()
    try parser.end()
    return entries
  }

  public static func list(_ text: [UInt8]) throws(FieldError) -> [FieldMember] {
    var parser = try FieldParser(text)
    let members = try parser.list()
    try parser.end()
    return members
  }

  public static func item(_ text: [UInt8]) throws(FieldError) -> FieldItem {
    var parser = try FieldParser(text)
    let item = try parser.item()
    try parser.end()
    return item
  }

  /// Whether the text is a key (RFC 8941 §3.1.2).
  public static func isKey(_ text: [UInt8]) -> Bool {
    guard var parser = try? FieldParser(text), text.first != 0x20, (try? parser.key()) != nil else { return false }
    return parser.at == text.count
  }

  private init(_ text: [UInt8]) throws(FieldError) {
    guard text.count <= Self.mostBytes else { throw .tooLong }
    self.text = text
    skipSpaces()
  }

  private mutating func end() throws(FieldError) {
    skipSpaces()
    guard at == text.count else { throw .malformed(at: at) }
  }

  // MARK: Bytes

  private var byte: UInt8? { at < text.count ? text[at] : nil }

  private mutating func take(_ wanted: UInt8) -> Bool {
    guard byte == wanted else { return false }
    at += 1
    return true
  }

  private mutating func expect(_ wanted: UInt8) throws(FieldError) {
    guard take(wanted) else { throw .malformed(at: at) }
  }

  private mutating func skipSpaces() { while byte == 0x20 { at += 1 } }

  private mutating func skipBlanks() { while byte == 0x20 || byte == 0x09 { at += 1 } }

  /// Takes the comma between two members. Returns false at the end of the text.
  private mutating func takeSeparator() throws(FieldError) -> Bool {
    let start = at
    skipBlanks()
    if byte == nil {
      // Only spaces may end a field.
      at = start
      return false
    }
    try expect(0x2C)
    skipBlanks()
    if byte == nil { throw .malformed(at: at) }
    return true
  }

  // MARK: Containers

  private mutating func dictionary() throws(FieldError) -> [FieldEntry] {
    var entries: [FieldEntry] = []
    var keys: Set<[UInt8]> = []
    guard byte != nil else { return entries }
    repeat {
      guard entries.count < Self.mostMembers else { throw .tooMany }
      let key = try key()
      guard keys.insert(key).inserted else { throw .doubled(key) }
      let member = take(0x3D) ? try member() : .item(FieldItem(.boolean(true), try parameters()))
      entries.append(FieldEntry(key: key, member: member))
    } while try takeSeparator()
    return entries
  }

  private mutating func list() throws(FieldError) -> [FieldMember] {
    var members: [FieldMember] = []
    guard byte != nil else { return members }
    repeat {
      guard members.count < Self.mostMembers else { throw .tooMany }
      members.append(try member())
    } while try takeSeparator()
    return members
  }

  private mutating func member() throws(FieldError) -> FieldMember {
    guard take(0x28) else { return .item(try item()) }
    var items: [FieldItem] = []
    while true {
      skipSpaces()
      if take(0x29) { return .list(items, try parameters()) }
      guard items.count < Self.mostItems else { throw .tooMany }
      items.append(try item())
      guard byte == 0x20 || byte == 0x29 else { throw .malformed(at: at) }
    }
  }

  private mutating func item() throws(FieldError) -> FieldItem {
    let value = try bareItem()
    return FieldItem(value, try parameters())
  }

  private mutating func parameters() throws(FieldError) -> [FieldParameter] {
    var parameters: [FieldParameter] = []
    while take(0x3B) {
      guard parameters.count < Self.mostParameters else { throw .tooMany }
      skipSpaces()
      let key = try key()
      guard !parameters.contains(where: { $0.key == key }) else { throw .doubled(key) }
      let value = take(0x3D) ? try bareItem() : .boolean(true)
      parameters.append(FieldParameter(key, value))
    }
    return parameters
  }

  private mutating func key() throws(FieldError) -> [UInt8] {
    let start = at
    guard let first = byte, first &- 97 < 26 || first == 0x2A else { throw .malformed(at: at) }
    while let next = byte, Self.isKeyByte(next) { at += 1 }
    return Array(text[start..<at])
  }

  private static func isKeyByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x61...0x7A, 0x30...0x39, 0x5F, 0x2D, 0x2E, 0x2A: true
    default: false
    }
  }

  // MARK: Bare items

  private mutating func bareItem() throws(FieldError) -> BareItem {
    guard let first = byte else { throw .malformed(at: at) }
    switch first {
    case 0x22: return .string(try string())
    case 0x3A: return .bytes(try bytes())
    case 0x3F: return .boolean(try boolean())
    case 0x2A, 0x41...0x5A, 0x61...0x7A: return .token(token())
    default: return try number()
    }
  }

  private mutating func string() throws(FieldError) -> [UInt8] {
    at += 1
    var value: [UInt8] = []
    while let next = byte {
      at += 1
      switch next {
      case 0x22: return value
      case 0x5C:
        guard let escaped = byte, escaped == 0x22 || escaped == 0x5C else { throw .malformed(at: at) }
        at += 1
        value.append(escaped)
      case 0x20...0x7E: value.append(next)
      default: throw .malformed(at: at - 1)
      }
    }
    throw .malformed(at: at)
  }

  private mutating func bytes() throws(FieldError) -> [UInt8] {
    at += 1
    let start = at
    while let next = byte, next != 0x3A { at += 1 }
    guard byte == 0x3A, let value = try? text[start..<at].withUnsafeBytes({ try Base64.decode($0) }) else {
      throw .malformed(at: start)
    }
    at += 1
    return value
  }

  private mutating func boolean() throws(FieldError) -> Bool {
    at += 1
    if take(0x31) { return true }
    try expect(0x30)
    return false
  }

  private mutating func token() -> [UInt8] {
    let start = at
    at += 1
    while let next = byte, Self.isTokenByte(next) || next == 0x3A || next == 0x2F { at += 1 }
    return Array(text[start..<at])
  }

  /// tchar of RFC 9110 §5.6.2.
  static func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E, 0x5F, 0x60, 0x7C, 0x7E: true
    default: false
    }
  }

  private mutating func number() throws(FieldError) -> BareItem {
    let start = at
    let isNegative = take(0x2D)
    var value: Int64 = 0
    let whole = try digits(&value, most: 15, start)
    guard whole > 0 else { throw .malformed(at: at) }
    guard take(0x2E) else { return .integer(isNegative ? -value : value) }
    guard whole <= 12 else { throw .malformed(at: start) }
    let fraction = try digits(&value, most: 3, start)
    guard fraction > 0 else { throw .malformed(at: at) }
    for _ in fraction..<3 { value *= 10 }
    return .decimal(isNegative ? -value : value)
  }

  /// Appends digits to a number. With 15 of them, it can't overflow. Returns how many there were.
  private mutating func digits(_ value: inout Int64, most: Int, _ start: Int) throws(FieldError) -> Int {
    var count = 0
    while let next = byte, ASCII.isDigit(next) {
      guard count < most else { throw .malformed(at: start) }
      value = value * 10 + Int64(next - 48)
      count += 1
      at += 1
    }
    return count
  }
}
