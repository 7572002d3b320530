package import Bytes

/// Scans one JSON object (RFC 8259) byte for byte and keeps the scalar values of the requested members.
///
/// It does not stop at a fault, as a parser does. The text may be a decrypted forgery, and the time at which parsing
/// stopped would reveal something about it. Here a fault is a state like others, and every byte takes the same path. It
/// uses no more memory than the length of the text.
package struct MemberScanner: ~Copyable {
  /// What is known about a requested member.
  package enum Value: Equatable {
    case absent
    /// Unescaped, in UTF-8.
    case string(ByteRange)
    /// A number, true, false or null as in the text.
    case literal(ByteRange)
    /// An object or array, or a member that occurs twice.
    case unusable(Unusable)
  }

  package enum Unusable: Equatable { case nested, doubled }

  enum State: UInt8 {
    case beforeObject, keyOrEnd, key, colon, value, elementOrEnd, next
    case string, escape, hex, lowBackslash, lowU, continuation
    case word, minus, zero, integer, point, fraction, exponent, exponentSign, exponentDigits
    /// The object's last brace was read.
    case over
    /// The text is not such an object, whatever follows.
    case fault
  }

  /// The names of the requested members, by index.
  private let names: [[UInt8]]
  /// In the order of the names.
  package private(set) var values: [Value]
  /// Whether an unrequested member has a name that another parser could take for a requested one.
  package private(set) var hasTwin = false
  private(set) var state = State.beforeObject
  /// The number of bytes up to and including the object's last brace.
  package private(set) var endOfObject = 0
  /// The position of the first byte after the object that is not blank; nil while there is none.
  private var stray: Int?
  private(set) var taken = 0

  /// Unescaped keys and values.
  private var store: ByteBuffer
  private var keptFrom = 0
  private var keeps = false
  /// The string is a member's name.
  private var isKey = false
  /// The member whose value is being read.
  private var member: Int?

  /// Open objects (1) and arrays (0), the innermost last.
  private var nesting: UInt64 = 0
  private var depth = 0
  static let depthLimit = 64

  private var word: StaticString = "true"
  private var wordAt = 0
  /// For `\u`: the digits still to come, and their value; a high surrogate that waits for its low surrogate.
  private var digitsLeft = 0
  private var unit: UInt32 = 0
  private var highSurrogate: UInt32 = 0
  /// For a UTF-8 sequence: the bytes still to come, and the allowed values of the next one.
  private var continuations = 0
  private var nextByte: ClosedRange<UInt8> = 0x80...0xBF

  /// `capacity`: at least the length of the text.
  package init(names: [[UInt8]], capacity: Int) {
    self.names = names
    values = Array(repeating: .absent, count: names.count)
    store = ByteBuffer(capacity: capacity)
  }

  /// Overwrites what was read, which may hold a secret.
  package mutating func wipe() { store.wipe() }

  /// The bytes that the ranges in `values` refer to.
  package var kept: UnsafeRawBufferPointer { store.readable }
  /// Whether the object is complete; `firstStray` tells what follows it.
  package var isWhole: Bool { state == .over }
  /// The position of the first byte after the object that is not blank; the count of bytes so far if there is none.
  package var firstStray: Int { stray ?? taken }

  /// Scans the next bytes of the text.
  package mutating func take(_ text: UnsafeRawBufferPointer) {
    var at = 0
    while at < text.count {
      if state == .string {
        let end = text[at...].firstIndex { !Mark.isPlain($0) } ?? text.count
        if keeps { store.append(UnsafeRawBufferPointer(rebasing: text[at..<end])) }
        taken += end - at
        at = end
        if at == text.count { return }
      }
      step(text[at])
      taken += 1
      at += 1
    }
  }

  private mutating func step(_ byte: UInt8) {
    switch state {
    case .string: inString(byte)
    case .beforeObject:
      if byte == Mark.openBrace { open(isObject: true) } else if !Mark.isBlank(byte) { state = .fault }
    case .keyOrEnd:
      if byte == Mark.closeBrace { close(isObject: true) } else { beginKey(byte) }
    case .key: beginKey(byte)
    case .colon:
      if byte == Mark.colon { state = .value } else if !Mark.isBlank(byte) { state = .fault }
    case .elementOrEnd:
      if byte == Mark.closeBracket { close(isObject: false) } else { beginValue(byte) }
    case .value: beginValue(byte)
    case .next: afterValue(byte)
    case .escape: inEscape(byte)
    case .hex: inHex(byte)
    case .lowBackslash: state = byte == Mark.backslash ? .lowU : .fault
    case .lowU: if byte == UInt8(ascii: "u") { beginHex() } else { state = .fault }
    case .continuation: inSequence(byte)
    case .word: inWord(byte)
    case .minus, .zero, .integer, .point, .fraction, .exponent, .exponentSign, .exponentDigits: inNumber(byte)
    case .over: if stray == nil, !Mark.isBlank(byte) { stray = taken }
    case .fault: break
    }
  }

  // MARK: Structure

  private var isInObject: Bool { nesting & 1 == 1 }

  private mutating func open(isObject: Bool) {
    if let member { values[member] = .unusable(.nested) }
    guard depth < Self.depthLimit else { return state = .fault }
    member = nil
    depth += 1
    nesting = nesting << 1 | (isObject ? 1 : 0)
    state = isObject ? .keyOrEnd : .elementOrEnd
  }

  private mutating func close(isObject: Bool) {
    guard isInObject == isObject else { return state = .fault }
    depth -= 1
    nesting >>= 1
    endValue()
  }

  private mutating func endValue() {
    member = nil
    keeps = false
    state = depth == 0 ? .over : .next
    if depth == 0 { endOfObject = taken + 1 }
  }

  private mutating func afterValue(_ byte: UInt8) {
    switch byte {
    case Mark.comma: state = isInObject ? .key : .value
    case Mark.closeBrace: close(isObject: true)
    case Mark.closeBracket: close(isObject: false)
    default: if !Mark.isBlank(byte) { state = .fault }
    }
  }

  private mutating func beginKey(_ byte: UInt8) {
    if byte == Mark.quote {
      beginString(isKey: true, keeps: depth == 1)
    } else if !Mark.isBlank(byte) {
      state = .fault
    }
  }

  private mutating func beginValue(_ byte: UInt8) {
    switch byte {
    case Mark.quote: beginString(isKey: false, keeps: member != nil)
    case Mark.openBrace: open(isObject: true)
    case Mark.openBracket: open(isObject: false)
    case UInt8(ascii: "t"): begin(word: "true", byte)
    case UInt8(ascii: "f"): begin(word: "false", byte)
    case UInt8(ascii: "n"): begin(word: "null", byte)
    case UInt8(ascii: "-"): beginLiteral(byte, .minus)
    case UInt8(ascii: "0"): beginLiteral(byte, .zero)
    case UInt8(ascii: "1")...UInt8(ascii: "9"): beginLiteral(byte, .integer)
    default: if !Mark.isBlank(byte) { state = .fault }
    }
  }

  // MARK: Strings

  private mutating func beginString(isKey: Bool, keeps: Bool) {
    self.isKey = isKey
    self.keeps = keeps
    keptFrom = store.count
    state = .string
  }

  private mutating func inString(_ byte: UInt8) {
    switch byte {
    case Mark.quote: endString()
    case Mark.backslash: state = .escape
    case 0x00..<0x20: state = .fault
    case 0x20..<0x80: keep(byte)
    default: beginSequence(byte)
    }
  }

  private mutating func endString() {
    guard isKey else {
      if let member, keeps { values[member] = .string(ByteRange(start: keptFrom, count: store.count - keptFrom)) }
      return endValue()
    }
    state = .colon
    guard keeps else { return }
    let name = UnsafeRawBufferPointer(rebasing: store.readable[keptFrom...])
    var isAskedFor = false
    for index in names.indices where names[index].withUnsafeBytes({ $0.equals(name) }) {
      isAskedFor = true
      if values[index] == .absent { member = index } else { values[index] = .unusable(.doubled) }
    }
    if !isAskedFor, names.contains(where: { Self.isTwin(name, of: $0) }) { hasTwin = true }
    store.truncate(to: keptFrom)
    keeps = false
  }

  private mutating func keep(_ byte: UInt8) { if keeps { store.append(byte) } }

  private mutating func inEscape(_ byte: UInt8) {
    state = .string
    switch byte {
    case Mark.quote, Mark.backslash, UInt8(ascii: "/"): keep(byte)
    case UInt8(ascii: "b"): keep(0x08)
    case UInt8(ascii: "f"): keep(0x0C)
    case UInt8(ascii: "n"): keep(0x0A)
    case UInt8(ascii: "r"): keep(0x0D)
    case UInt8(ascii: "t"): keep(0x09)
    case UInt8(ascii: "u"): beginHex()
    default: state = .fault
    }
  }

  private mutating func beginHex() {
    digitsLeft = 4
    unit = 0
    state = .hex
  }

  private mutating func inHex(_ byte: UInt8) {
    guard let digit = ASCII.hexValue(byte) else { return state = .fault }
    unit = unit << 4 | UInt32(digit)
    digitsLeft -= 1
    guard digitsLeft == 0 else { return }
    state = .string
    switch (highSurrogate, unit) {
    case (0, 0xD800..<0xDC00):
      highSurrogate = unit
      state = .lowBackslash
    case (0, 0xDC00..<0xE000): state = .fault
    case (0, _): keep(scalar: unit)
    case (_, 0xDC00..<0xE000):
      keep(scalar: 0x10000 + ((highSurrogate & 0x3FF) << 10 | unit & 0x3FF))
      highSurrogate = 0
    default: state = .fault
    }
  }

  private mutating func keep(scalar: UInt32) {
    func trail(_ shift: UInt32) -> UInt8 { 0x80 | UInt8(truncatingIfNeeded: scalar >> shift & 0x3F) }
    func lead(_ mark: UInt8, _ shift: UInt32) -> UInt8 { mark | UInt8(truncatingIfNeeded: scalar >> shift) }
    switch scalar {
    case ..<0x80: keep(lead(0, 0))
    case ..<0x800:
      keep(lead(0xC0, 6))
      keep(trail(0))
    case ..<0x10000:
      keep(lead(0xE0, 12))
      keep(trail(6))
      keep(trail(0))
    default:
      keep(lead(0xF0, 18))
      keep(trail(12))
      keep(trail(6))
      keep(trail(0))
    }
  }

  /// Starts a UTF-8 sequence by RFC 3629 §4: shortest forms, no surrogates.
  private mutating func beginSequence(_ byte: UInt8) {
    switch byte {
    case 0xC2...0xDF: expect(1, 0x80...0xBF)
    case 0xE0: expect(2, 0xA0...0xBF)
    case 0xED: expect(2, 0x80...0x9F)
    case 0xE1...0xEF: expect(2, 0x80...0xBF)
    case 0xF0: expect(3, 0x90...0xBF)
    case 0xF1...0xF3: expect(3, 0x80...0xBF)
    case 0xF4: expect(3, 0x80...0x8F)
    default: return state = .fault
    }
    keep(byte)
  }

  private mutating func expect(_ count: Int, _ next: ClosedRange<UInt8>) {
    continuations = count
    nextByte = next
    state = .continuation
  }

  private mutating func inSequence(_ byte: UInt8) {
    guard nextByte.contains(byte) else { return state = .fault }
    keep(byte)
    continuations -= 1
    nextByte = 0x80...0xBF
    if continuations == 0 { state = .string }
  }

  // MARK: Numbers and words

  private mutating func beginLiteral(_ byte: UInt8, _ state: State) {
    keeps = member != nil
    keptFrom = store.count
    keep(byte)
    self.state = state
  }

  private mutating func endLiteral() {
    if let member { values[member] = .literal(ByteRange(start: keptFrom, count: store.count - keptFrom)) }
    endValue()
  }

  private mutating func begin(word: StaticString, _ byte: UInt8) {
    self.word = word
    wordAt = 1
    beginLiteral(byte, .word)
  }

  private mutating func inWord(_ byte: UInt8) {
    guard byte == word.utf8Start[wordAt] else { return state = .fault }
    keep(byte)
    wordAt += 1
    if wordAt == word.utf8CodeUnitCount { endLiteral() }
  }

  private mutating func inNumber(_ byte: UInt8) {
    guard let next = Self.number(state, byte) else {
      switch state {
      case .zero, .integer, .fraction, .exponentDigits:
        endLiteral()
        return afterValue(byte)
      default: return state = .fault
      }
    }
    keep(byte)
    state = next
  }

  /// Returns the next state by RFC 8259 §6; nil when the byte does not belong to a number.
  private static func number(_ state: State, _ byte: UInt8) -> State? {
    switch (state, byte) {
    case (.minus, UInt8(ascii: "0")): .zero
    case (.minus, UInt8(ascii: "1")...UInt8(ascii: "9")): .integer
    case (.integer, UInt8(ascii: "0")...UInt8(ascii: "9")): .integer
    case (.zero, UInt8(ascii: ".")), (.integer, UInt8(ascii: ".")): .point
    case (.point, UInt8(ascii: "0")...UInt8(ascii: "9")): .fraction
    case (.fraction, UInt8(ascii: "0")...UInt8(ascii: "9")): .fraction
    case (.zero, UInt8(ascii: "e")), (.integer, UInt8(ascii: "e")), (.fraction, UInt8(ascii: "e")): .exponent
    case (.zero, UInt8(ascii: "E")), (.integer, UInt8(ascii: "E")), (.fraction, UInt8(ascii: "E")): .exponent
    case (.exponent, UInt8(ascii: "+")), (.exponent, UInt8(ascii: "-")): .exponentSign
    case (.exponent, UInt8(ascii: "0")...UInt8(ascii: "9")): .exponentDigits
    case (.exponentSign, UInt8(ascii: "0")...UInt8(ascii: "9")): .exponentDigits
    case (.exponentDigits, UInt8(ascii: "0")...UInt8(ascii: "9")): .exponentDigits
    default: nil
    }
  }

  private enum Mark {
    static let quote = UInt8(ascii: "\"")
    static let backslash = UInt8(ascii: "\\")
    static let openBrace = UInt8(ascii: "{")
    static let closeBrace = UInt8(ascii: "}")
    static let openBracket = UInt8(ascii: "[")
    static let closeBracket = UInt8(ascii: "]")
    static let colon = UInt8(ascii: ":")
    static let comma = UInt8(ascii: ",")

    /// Whether the byte represents itself in a string.
    static func isPlain(_ byte: UInt8) -> Bool { byte &- 0x20 < 0x60 && byte != quote && byte != backslash }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 }
  }
}
