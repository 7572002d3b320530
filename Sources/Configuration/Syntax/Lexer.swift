import Observability

/// nginx's lexical rules, state for state those of `ngx_conf_read_token`.
///
/// Blanks separate words; `;` `{` `}` end statements; `#` begins a comment where a word could begin; `'…'` and `"…"`
/// quote; a backslash keeps the next byte in the word, and is itself dropped before `"`, `'` and `\`, turned into the
/// control character before `t`, `r`, `n`, and kept before anything else. `${` does not open a block. An unquoted `{`
/// elsewhere does, also in a regular expression: nginx wants such an expression in quotes, and so do we.
struct Lexer {
  enum Statement {
    case simple([Word])
    case blockStart([Word])
    case blockEnd(SourceLocation)
    case end
  }

  /// A lexical fault. Nothing after it in this file can be read with confidence.
  struct ParseError: Error {
    var diagnostic: Diagnostic
  }

  private let bytes: [UInt8]
  private let file: String
  private var position = 0
  private var line = 1
  private var lineStart = 0

  init(bytes: [UInt8], file: String) {
    self.bytes = bytes
    self.file = file
  }

  private func location(at index: Int) -> SourceLocation {
    SourceLocation(file: file, line: line, column: index - lineStart + 1)
  }

  /// Where reading stands: the place of the end of the file once it has been reached.
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
        mustSeparate = false
      case UInt8(ascii: ";"), UInt8(ascii: "{"):
        guard !words.isEmpty else { throw unexpected(byte) }
        position += 1
        return byte == UInt8(ascii: ";") ? .simple(words) : .blockStart(words)
      case UInt8(ascii: ")") where mustSeparate:
        // `if ($a = "b")`: nginx lets a closing parenthesis follow a quote.
        words.append(try readBareWord())
        mustSeparate = false
      case _ where mustSeparate:
        throw unexpected(byte, hint: "after a closing quote comes a blank, \";\" or \"{\"")
      case UInt8(ascii: "}"):
        guard words.isEmpty else {
          throw unexpected(byte, hint: "the statement \"\(words[0].text)\" before it lacks its \";\"")
        }
        position += 1
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

  private mutating func skipComment() {
    while position < bytes.count, bytes[position] != UInt8(ascii: "\n") { position += 1 }
  }

  private mutating func readQuotedWord(quote: UInt8) throws(ParseError) -> Word {
    let place = here
    position += 1
    var raw: [UInt8] = []
    while position < bytes.count {
      let byte = bytes[position]
      if byte == quote {
        position += 1
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
    return try word(raw, at: place, quoted: false)
  }

  /// Takes one byte of a word, or two when the first is a backslash, escapes resolved.
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
