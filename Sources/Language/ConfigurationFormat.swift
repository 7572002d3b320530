package import Observability

/// `sallyport format`: a configuration with four spaces for each block, one directive on a line, and its comments.
///
/// Words keep their bytes, quotes and escapes included. A directive that goes over several lines still does; its later
/// lines have four spaces more. Of several blank lines one stays, and none at the beginning or the end of a block.
/// Formatting a result again changes nothing.
package enum ConfigurationFormat {
  /// Why a text can't be formatted.
  package struct Refusal: Error, Sendable {
    package let diagnostic: Diagnostic
  }

  /// Formats a text. The result has the same statements and comments, or there is none.
  package static func format(_ bytes: [UInt8], file: String) throws(Refusal) -> [UInt8] {
    let before = try FormatSource(bytes, file)
    var printer = FormatPrinter(bytes: bytes)
    for piece in before.pieces { printer.add(piece) }
    let text = printer.finish()
    // The parser decides whether both say the same, not the printer.
    let after = try FormatSource(text, file)
    guard before.statements == after.statements, before.comments == after.comments else {
      throw Refusal(
        diagnostic: Diagnostic(
          .error, at: nil, "the formatted text of \"\(file)\" would not mean the same",
          hint: "this is a fault of sallyport; the file is unchanged"))
    }
    return text
  }
}

/// A text as its lexer reads it: what must be the same before and after.
private struct FormatSource {
  /// The words of a statement without their places, and what ends it.
  struct Statement: Equatable {
    enum End { case semicolon, open, close }
    var words: [String]
    var quoted: [Bool]
    var end: End
  }

  private(set) var statements: [Statement] = []
  private(set) var pieces: [Lexer.Piece] = []
  private(set) var comments: [[UInt8]] = []

  init(_ bytes: [UInt8], _ file: String) throws(ConfigurationFormat.Refusal) {
    guard bytes.count <= Parser.maximumFileSize else {
      throw .init(
        diagnostic: Diagnostic(.error, at: nil, "\"\(file)\" is larger than \(Parser.maximumFileSize >> 20) MiB"))
    }
    var lexer = Lexer(bytes: bytes, file: file, recordsPieces: true)
    var open: [Word] = []
    do throws(Lexer.ParseError) {
      reading: while true {
        switch try lexer.next() {
        case .end: break reading
        case .simple(let words): add(words, .semicolon)
        case .blockStart(let words):
          add(words, .open)
          if let name = words.first { open.append(name) }
          guard open.count <= Parser.maximumNesting else {
            throw Lexer.ParseError(
              diagnostic: Diagnostic(
                .error, at: words.first?.location, "blocks are nested more than \(Parser.maximumNesting) deep"))
          }
        case .blockEnd(let place):
          guard open.popLast() != nil else {
            throw Lexer.ParseError(
              diagnostic: Diagnostic(.error, at: place, "unexpected \"}\"", hint: "no block is open here"))
          }
          add([], .close)
        }
      }
      if let name = open.last {
        throw Lexer.ParseError(
          diagnostic: Diagnostic(
            .error, at: lexer.here, "unexpected end of file, expecting \"}\"",
            hint: "the block of \"\(name.text)\" that begins in line \(name.location.line) is not closed"))
      }
    } catch {
      throw .init(diagnostic: error.diagnostic)
    }
    pieces = lexer.pieces
    comments = lexer.pieces.compactMap { piece in
      if case .comment(let range) = piece { FormatPrinter.trimmed(bytes[range]) } else { nil }
    }
  }

  private mutating func add(_ words: [Word], _ end: Statement.End) {
    statements.append(Statement(words: words.map(\.text), quoted: words.map(\.quoted), end: end))
  }
}

/// Prints pieces. Pure; `add` takes them in order.
private struct FormatPrinter {
  private enum Position: Equatable {
    /// At the begin of a file or block, where no blank line stands.
    case start
    /// After a complete directive, a comment of its own line or a `}`.
    case lineEnd
    /// After a word or a comment inside a directive.
    case directive
  }

  private let bytes: [UInt8]
  private var output: [UInt8] = []
  private var depth = 0
  private var position = Position.start
  /// Line feeds since the last piece that was printed.
  private var lineFeeds = 0
  /// The end of the last word; a `)` can follow a quote without a blank.
  private var wordEnd: Int?
  /// The last piece of the directive is a comment, so the line must end.
  private var isAfterComment = false
  /// A `{` was printed, and nothing of its block.
  private var hasEmptyBlock = false

  init(bytes: [UInt8]) { self.bytes = bytes }

  mutating func add(_ piece: Lexer.Piece) {
    switch piece {
    case .lineFeed: lineFeeds += 1
    case .word(let range): add(word: range)
    case .comment(let range): add(comment: range)
    case .semicolon:
      if isAfterComment { beginLine(1) }
      output.append(UInt8(ascii: ";"))
      endDirective(.lineEnd)
    case .open:
      if isAfterComment { beginLine(0) } else { output.append(UInt8(ascii: " ")) }
      output.append(UInt8(ascii: "{"))
      depth += 1
      endDirective(.start)
      hasEmptyBlock = true
    case .close:
      depth = max(0, depth - 1)
      if !hasEmptyBlock { beginLine(0) }
      output.append(UInt8(ascii: "}"))
      endDirective(.lineEnd)
    }
  }

  mutating func finish() -> [UInt8] {
    if !output.isEmpty { output.append(UInt8(ascii: "\n")) }
    return output
  }

  private mutating func endDirective(_ position: Position) {
    self.position = position
    lineFeeds = 0
    wordEnd = nil
    isAfterComment = false
    hasEmptyBlock = false
  }

  private mutating func add(word range: Range<Int>) {
    if position == .directive {
      if isAfterComment || lineFeeds > 0 {
        beginLine(1)
      } else if wordEnd != range.lowerBound {
        output.append(UInt8(ascii: " "))
      }
    } else {
      separate()
      beginLine(0)
    }
    output += bytes[range]
    position = .directive
    lineFeeds = 0
    wordEnd = range.upperBound
    isAfterComment = false
    hasEmptyBlock = false
  }

  private mutating func add(comment range: Range<Int>) {
    let isOwnLine = lineFeeds > 0 || output.isEmpty
    if position == .directive {
      if isOwnLine || isAfterComment { beginLine(1) } else { output.append(UInt8(ascii: " ")) }
      isAfterComment = true
    } else {
      if isOwnLine {
        separate()
        beginLine(0)
      } else {
        output.append(UInt8(ascii: " "))
      }
      position = .lineEnd
    }
    output += Self.trimmed(bytes[range])
    lineFeeds = 0
    wordEnd = nil
    hasEmptyBlock = false
  }

  /// One blank line, if the source has any here.
  private mutating func separate() {
    if position == .lineEnd, lineFeeds > 1 { output.append(UInt8(ascii: "\n")) }
  }

  private mutating func beginLine(_ deeper: Int) {
    if !output.isEmpty { output.append(UInt8(ascii: "\n")) }
    output += [UInt8](repeating: UInt8(ascii: " "), count: 4 * (depth + deeper))
  }

  /// A comment without blanks at its end.
  static func trimmed(_ comment: ArraySlice<UInt8>) -> [UInt8] {
    var comment = comment
    while let last = comment.last, last == 0x20 || last == 0x09 || last == 0x0D { comment.removeLast() }
    return Array(comment)
  }
}
