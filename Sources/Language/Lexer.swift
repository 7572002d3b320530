import Observability

/// Splits text into words by nginx's lexical rules, with the same states as `ngx_conf_read_token`.
///
/// - Blanks separate words; `;`, `{` and `}` end statements; `#` begins a comment where a word could begin.
/// - `'…'` and `"…"` quote.
/// - A backslash keeps the next byte in the word. The lexer drops the backslash before `"`, `'` and `\`, and makes a
///   control character of it and a following `t`, `r` or `n`. Before any other byte, the backslash stays.
/// - `${` does not open a block. An unquoted `{` elsewhere does, even in a regular expression: as in nginx, such an
///   expression needs quotes.
struct Lexer {
  enum Statement {
    case simple([Word])
    case blockStart([Word])
    case blockEnd(SourceLocation)
    case end
  }

  /// A part of the text as written, for `ConfigurationFormat`: the statements alone have neither comments nor lines.
  enum Piece: Hashable {
    /// The place of a word in the text, with its quotes.
    case word(Range<Int>)
    case comment(Range<Int>)
    case lineFeed, semicolon, open, close
  }

  /// A lexical error. The lexer can't read the rest of the file reliably.
  struct ParseError: Error {
    var diagnostic: Diagnostic
  }

  private let bytes: [UInt8]
  private let file: String
  private var position = 0
  private var line = 1
  private var lineStart = 0
  private let recordsPieces: Bool
  private(set) var pieces: [Piece] = []

  init(bytes: [UInt8], file: String, recordsPieces: Bool = false) {
    self.bytes = bytes
    self.file = file
    self.recordsPieces = recordsPieces
  }

  private mutating func record(_ piece: Piece) {
    if recordsPieces { pieces.append(piece) }
  }

  private func location(at index: Int) -> SourceLocation {
    SourceLocation(file: file, line: line, column: index - lineStart + 1)
  }

  /// The current place; at the end of the file, the place of that end.
  var here: SourceLocation { location(at: position) }

  mutating func next() throws(ParseError) -> Statement {
    guard position > 0 || !bytes.starts(with: [0xEF, 0xBB, 0xBF]) else {
      throw ParseError(
        diagnostic: Diagnostic(
          .error, at: here, "the file begins with a byte order mark", hint: "save it as UTF-8 without one"))
    }
    var words: [Word] = []
    var mustSeparate = false
    while position < bytes.count {
      let byte = bytes[position]
      switch byte {
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"):
        position += 1
        mustSeparate = false
      case UInt8(ascii: "\n"):
        advanceOverLineFeed()
        record(.lineFeed)
        mustSeparate = false
      case UInt8(ascii: ";"), UInt8(ascii: "{"):
        guard !words.isEmpty else { throw unexpected(byte) }
        position += 1
        record(byte == UInt8(ascii: ";") ? .semicolon : .open)
        if byte == UInt8(ascii: "{"), words[0].text.hasSuffix("_by_lua_block") { skipLua() }
        return byte == UInt8(ascii: ";") ? .simple(words) : .blockStart(words)
      case UInt8(ascii: ")") where mustSeparate:
        // `if ($a = "b")`: nginx allows a closing parenthesis after a quote.
        words.append(try readBareWord())
        mustSeparate = false
      case _ where mustSeparate:
        throw unexpected(byte, hint: "after a closing quote comes a blank, \";\" or \"{\"")
      case UInt8(ascii: "}"):
        guard words.isEmpty else {
          throw unexpected(byte, hint: "the statement \"\(words[0].text)\" before it lacks its \";\"")
        }
        position += 1
        record(.close)
        return .blockEnd(location(at: position - 1))
      case UInt8(ascii: "#"):
        skipComment()
      case UInt8(ascii: "\""), UInt8(ascii: "'"):
        words.append(try readQuotedWord(quote: byte))
        mustSeparate = true
      default:
        words.append(try readBareWord())
      }
    }
    if let first = words.first {
      throw ParseError(
        diagnostic: Diagnostic(
          .error, at: here, "unexpected end of file, expecting \";\" or \"}\"",
          hint: "the statement \"\(first.text)\" that begins in line \(first.location.line) is not ended"))
    }
    return .end
  }

  private mutating func advanceOverLineFeed() {
    position += 1
    line += 1
    lineStart = position
  }

  /// Skips Lua up to the brace that ends its block, so that one message tells of the block and none of what is in it.
  private mutating func skipLua() {
    let start = position
    var depth = 0
    scan: while position < bytes.count {
      switch bytes[position] {
      case UInt8(ascii: "{"): depth += 1
      case UInt8(ascii: "}"):
        if depth == 0 { break scan }
        depth -= 1
      case UInt8(ascii: "\""), UInt8(ascii: "'"): skipLuaString(bytes[position])
      case UInt8(ascii: "-") where bytes[position...].starts(with: [0x2D, 0x2D]):
        advance(2)
        if !skipLongLua() { while position < bytes.count, bytes[position] != UInt8(ascii: "\n") { position += 1 } }
        continue scan
      case UInt8(ascii: "["):
        if skipLongLua() { continue scan }
      default: break
      }
      advance(1)
    }
    let isBlank = { (byte: UInt8) in byte == 0x20 || byte &- 9 < 5 }
    guard let first = bytes[start..<position].firstIndex(where: { !isBlank($0) }),
      let last = bytes[start..<position].lastIndex(where: { !isBlank($0) })
    else { return }
    record(.comment(first..<last + 1))
  }

  /// Goes to the quote that ends a string.
  private mutating func skipLuaString(_ quote: UInt8) {
    advance(1)
    while position < bytes.count, bytes[position] != quote { advance(bytes[position] == UInt8(ascii: "\\") ? 2 : 1) }
  }

  /// Skips `[[ … ]]` and `[=[ … ]=]`. False: no such string begins here.
  private mutating func skipLongLua() -> Bool {
    guard position < bytes.count, bytes[position] == UInt8(ascii: "[") else { return false }
    let level = bytes[(position + 1)...].prefix { $0 == UInt8(ascii: "=") }.count
    guard position + 1 + level < bytes.count, bytes[position + 1 + level] == UInt8(ascii: "[") else { return false }
    let end = [0x5D] + [UInt8](repeating: UInt8(ascii: "="), count: level) + [0x5D]
    while position < bytes.count, !bytes[position...].starts(with: end) { advance(1) }
    advance(end.count)
    return true
  }

  private mutating func advance(_ count: Int) {
    for _ in 0..<count where position < bytes.count {
      if bytes[position] == UInt8(ascii: "\n") { advanceOverLineFeed() } else { position += 1 }
    }
  }

  private mutating func skipComment() {
    let start = position
    while position < bytes.count, bytes[position] != UInt8(ascii: "\n") { position += 1 }
    record(.comment(start..<position))
  }

  private mutating func readQuotedWord(quote: UInt8) throws(ParseError) -> Word {
    let place = here
    let start = position
    position += 1
    var raw: [UInt8] = []
    while position < bytes.count {
      let byte = bytes[position]
      if byte == quote {
        position += 1
        record(.word(start..<position))
        return try word(raw, at: place, quoted: true)
      }
      takeByte(into: &raw)
    }
    throw ParseError(
      diagnostic: Diagnostic(
        .error, at: place, "unexpected end of file: the quote opened here is never closed",
        hint: "add the missing \(Character(Unicode.Scalar(quote)))"))
  }

  private mutating func readBareWord() throws(ParseError) -> Word {
    let place = here
    let start = position
    var raw: [UInt8] = []
    var afterDollar = false
    scan: while position < bytes.count {
      let byte = bytes[position]
      switch byte {
      case UInt8(ascii: "{") where afterDollar:
        takeByte(into: &raw)
        continue scan
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"), UInt8(ascii: ";"),
        UInt8(ascii: "{"):
        break scan
      default:
        afterDollar = byte == UInt8(ascii: "$")
        takeByte(into: &raw)
      }
    }
    record(.word(start..<position))
    return try word(raw, at: place, quoted: false)
  }

  /// Reads one byte of a word, or two bytes when the first is a backslash, and resolves the escape.
  private mutating func takeByte(into raw: inout [UInt8]) {
    let byte = bytes[position]
    if byte == UInt8(ascii: "\\"), position + 1 < bytes.count {
      let escaped = bytes[position + 1]
      position += 1
      switch escaped {
      case UInt8(ascii: "\""), UInt8(ascii: "'"), UInt8(ascii: "\\"): raw.append(escaped)
      case UInt8(ascii: "t"): raw.append(9)
      case UInt8(ascii: "r"): raw.append(13)
      case UInt8(ascii: "n"): raw.append(10)
      default: raw += [byte, escaped]
      }
      if escaped == UInt8(ascii: "\n") { advanceOverLineFeed() } else { position += 1 }
      return
    }
    raw.append(byte)
    if byte == UInt8(ascii: "\n") { advanceOverLineFeed() } else { position += 1 }
  }

  private func word(_ raw: [UInt8], at place: SourceLocation, quoted: Bool) throws(ParseError) -> Word {
    guard let text = String(validating: raw, as: UTF8.self) else {
      throw ParseError(
        diagnostic: Diagnostic(.error, at: place, "this word is not UTF-8", hint: "save the file as UTF-8"))
    }
    guard !raw.contains(0) else {
      throw ParseError(
        diagnostic: Diagnostic(.error, at: place, "this word contains a NUL byte", hint: "is this a text file?"))
    }
    return Word(text, at: place, quoted: quoted)
  }

  private func unexpected(_ byte: UInt8, hint: String? = nil) -> ParseError {
    let shown = byte >= 0x20 && byte < 0x7F ? String(Character(Unicode.Scalar(byte))) : "\\x\(String(byte, radix: 16))"
    return ParseError(diagnostic: Diagnostic(.error, at: here, "unexpected \"\(shown)\"", hint: hint))
  }
}
