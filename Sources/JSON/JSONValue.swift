/// A JSON text (RFC 8259), read whole: for texts of a server that is asked, never for a message whose faults must not be
/// told apart by time (`MemberScanner` reads those).
///
/// The reader is strict: no member twice, no text behind the value, only UTF-8. What it keeps is bounded by the text, and
/// by `JSONLimits`.
package enum JSONValue: Sendable, Equatable {
  case null
  case bool(Bool)
  /// As it stands in the text.
  case number(String)
  case string(String)
  case array([JSONValue])
  case object([String: JSONValue])

  package init(_ text: [UInt8], limits: JSONLimits = JSONLimits()) throws(JSONFault) {
    var reader = JSONReader(text, limits)
    self = try reader.whole()
  }

  /// A member of an object; nil for another value, and for null.
  package subscript(_ name: String) -> JSONValue? {
    guard case .object(let members) = self, let value = members[name], value != .null else { return nil }
    return value
  }

  package var text: String? { if case .string(let text) = self { text } else { nil } }
  package var flag: Bool? { if case .bool(let flag) = self { flag } else { nil } }
  package var list: [JSONValue]? { if case .array(let list) = self { list } else { nil } }
  package var members: [String: JSONValue]? { if case .object(let members) = self { members } else { nil } }
  /// A whole number; nil for another number.
  package var integer: Int64? { if case .number(let text) = self { Int64(text) } else { nil } }
}

/// The bounds of a JSON text.
package struct JSONLimits: Sendable {
  package var bytes = 1 << 20
  package var depth = 16
  /// Values of any kind, in all.
  package var values = 10_000
  package init() {}
}

/// Why a text is not such JSON.
package struct JSONFault: Error, Sendable, Equatable, CustomStringConvertible {
  package let reason: String
  /// In bytes, from 0.
  package let offset: Int
  package var description: String { "\(reason) at byte \(offset)" }
}

private struct JSONReader {
  private let bytes: [UInt8]
  private let limits: JSONLimits
  private var at = 0
  private var values = 0

  init(_ bytes: [UInt8], _ limits: JSONLimits) {
    self.bytes = bytes
    self.limits = limits
  }

  private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

  private func fault(_ reason: String) -> JSONFault { JSONFault(reason: reason, offset: at) }

  mutating func whole() throws(JSONFault) -> JSONValue {
    guard bytes.count <= limits.bytes else { throw fault("more than \(limits.bytes) bytes") }
    let value = try value(depth: 0)
    skipBlanks()
    guard at == bytes.count else { throw fault("text behind the value") }
    return value
  }

  private mutating func skipBlanks() {
    while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { at += 1 }
  }

  private mutating func take(_ byte: UInt8) -> Bool {
    guard next == byte else { return false }
    at += 1
    return true
  }

  private mutating func value(depth: Int) throws(JSONFault) -> JSONValue {
    skipBlanks()
    values += 1
    guard depth < limits.depth, values <= limits.values else { throw fault("too many values") }
    switch next {
    case UInt8(ascii: "{"): return try object(depth)
    case UInt8(ascii: "["): return try array(depth)
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "t"): return try word("true", .bool(true))
    case UInt8(ascii: "f"): return try word("false", .bool(false))
    case UInt8(ascii: "n"): return try word("null", .null)
    case let byte? where byte == UInt8(ascii: "-") || byte &- 0x30 < 10: return .number(try number())
    case nil, _?: throw fault("no value")
    }
  }

  private mutating func word(_ word: StaticString, _ value: JSONValue) throws(JSONFault) -> JSONValue {
    let isThere = word.withUTF8Buffer { bytes[at...].starts(with: $0) }
    guard isThere else { throw fault("no value") }
    at += word.utf8CodeUnitCount
    return value
  }

  private mutating func object(_ depth: Int) throws(JSONFault) -> JSONValue {
    at += 1
    var members: [String: JSONValue] = [:]
    skipBlanks()
    if take(UInt8(ascii: "}")) { return .object(members) }
    while true {
      skipBlanks()
      guard next == UInt8(ascii: "\"") else { throw fault("no name of a member") }
      let name = try string()
      guard members[name] == nil else { throw fault("a member twice") }
      skipBlanks()
      guard take(UInt8(ascii: ":")) else { throw fault("no colon") }
      members[name] = try value(depth: depth + 1)
      skipBlanks()
      if take(UInt8(ascii: "}")) { return .object(members) }
      guard take(UInt8(ascii: ",")) else { throw fault("no comma") }
    }
  }

  private mutating func array(_ depth: Int) throws(JSONFault) -> JSONValue {
    at += 1
    var elements: [JSONValue] = []
    skipBlanks()
    if take(UInt8(ascii: "]")) { return .array(elements) }
    while true {
      elements.append(try value(depth: depth + 1))
      skipBlanks()
      if take(UInt8(ascii: "]")) { return .array(elements) }
      guard take(UInt8(ascii: ",")) else { throw fault("no comma") }
    }
  }

  /// RFC 8259 §6.
  private mutating func number() throws(JSONFault) -> String {
    let start = at
    _ = take(UInt8(ascii: "-"))
    if !take(UInt8(ascii: "0")) { try digits() }
    if take(UInt8(ascii: ".")) { try digits() }
    if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
      if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
      try digits()
    }
    return String(decoding: bytes[start..<at], as: UTF8.self)
  }

  private mutating func digits() throws(JSONFault) {
    let start = at
    while let byte = next, byte &- 0x30 < 10 { at += 1 }
    guard at > start else { throw fault("no digit") }
  }

  private mutating func string() throws(JSONFault) -> String {
    at += 1
    var text: [UInt8] = []
    while true {
      guard let byte = next else { throw fault("no end of a string") }
      at += 1
      switch byte {
      case UInt8(ascii: "\""):
        guard let string = String(validating: text, as: UTF8.self) else { throw fault("no UTF-8") }
        return string
      case UInt8(ascii: "\\"): try escape(&text)
      case ..<0x20: throw fault("a control character in a string")
      default: text.append(byte)
      }
    }
  }

  private mutating func escape(_ text: inout [UInt8]) throws(JSONFault) {
    guard let byte = next else { throw fault("no end of a string") }
    at += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
    case UInt8(ascii: "b"): text.append(0x08)
    case UInt8(ascii: "f"): text.append(0x0C)
    case UInt8(ascii: "n"): text.append(0x0A)
    case UInt8(ascii: "r"): text.append(0x0D)
    case UInt8(ascii: "t"): text.append(0x09)
    case UInt8(ascii: "u"):
      var code = try unit()
      if (0xD800..<0xDC00).contains(code) {
        guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else { throw fault("half of a surrogate pair") }
        let low = try unit()
        guard (0xDC00..<0xE000).contains(low) else { throw fault("half of a surrogate pair") }
        code = 0x10000 + ((code & 0x3FF) << 10 | low & 0x3FF)
      }
      guard let scalar = Unicode.Scalar(code) else { throw fault("half of a surrogate pair") }
      text += Array(String(Character(scalar)).utf8)
    default: throw fault("an unknown escape")
    }
  }

  private mutating func unit() throws(JSONFault) -> UInt32 {
    var value: UInt32 = 0
    for _ in 0..<4 {
      guard let byte = next, let digit = Self.hexadecimal(byte) else { throw fault("no four digits of \\u") }
      value = value << 4 | digit
      at += 1
    }
    return value
  }

  private static func hexadecimal(_ byte: UInt8) -> UInt32? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - 0x30)
    case UInt8(ascii: "a")...UInt8(ascii: "f"): UInt32(byte - 87)
    case UInt8(ascii: "A")...UInt8(ascii: "F"): UInt32(byte - 55)
    default: nil
    }
  }
}
