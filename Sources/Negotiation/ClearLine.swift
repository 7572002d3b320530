import Bytes

/// The first line of bytes of SMTP, IMAP or POP3.
///
/// A line ends with CR LF. A CR or LF by itself is a fault, because peers that disagree about where a line ends also
/// disagree about what has been asked.
enum ClearLine {
  case incomplete
  /// `length`: with the line end, which `text` doesn't have.
  case line(text: [UInt8], length: Int)
  case tooLong
  case badEnd

  /// `limit`: the most bytes of a line with its end. So many bytes without an end are too long.
  static func first(of bytes: UnsafeRawBufferPointer, limit: Int) -> ClearLine {
    var previous: UInt8 = 0
    for (index, byte) in bytes.prefix(max(0, limit)).enumerated() {
      if byte == 10 {
        return previous == 13 ? .line(text: Array(bytes.prefix(index - 1)), length: index + 1) : .badEnd
      }
      if previous == 13 { return .badEnd }
      previous = byte
    }
    return bytes.count >= limit ? .tooLong : .incomplete
  }
}

extension Collection<UInt8> where SubSequence: Collection<UInt8> {
  /// Whether the bytes are this word, with ASCII letters in either case. `word`: in upper case.
  func isWord(_ word: StaticString) -> Bool {
    guard count == word.utf8CodeUnitCount else { return false }
    let expected = UnsafeBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount)
    return zip(self, expected).allSatisfy { ASCII.upper($0) == $1 }
  }

  /// The bytes before the first space, and those after it; nil without one.
  var firstWord: (word: SubSequence, rest: SubSequence?) {
    guard let space = firstIndex(of: 0x20) else { return (self[...], nil) }
    return (self[..<space], self[index(after: space)...])
  }

  /// Whether the line announces a literal of IMAP: `{5}`, `{5+}` (RFC 9051 §4.3), also after `~`. The bytes of a
  /// literal are no lines, so whoever doesn't expect one reads them as commands.
  var announcesLiteral: Bool {
    var rest = Array(self)
    guard rest.popLast() == UInt8(ascii: "}") else { return false }
    if rest.last == UInt8(ascii: "+") { rest.removeLast() }
    let digits = rest.reversed().prefix { ASCII.isDigit($0) }.count
    return digits > 0 && rest.dropLast(digits).last == UInt8(ascii: "{")
  }
}
