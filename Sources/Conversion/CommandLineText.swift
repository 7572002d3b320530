/// A command line in a text: words as a shell splits them, with continued lines. Nothing is expanded.
enum CommandLineText {
  struct Fault: Error {
    let line: OldLine
    let reason: String
  }

  /// The words behind the program's name, in the line that starts it, such as `ExecStart=` of a unit; all words of a text
  /// that doesn't name the program.
  static func words(_ text: String, file: String, program: String) throws(Fault) -> [OldLine] {
    // CR and LF are one character.
    let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    let first = lines.firstIndex { starts($0, program) }
    let end = first.map { first in lines[first...].firstIndex { !$0.hasSuffix("\\") } ?? lines.count - 1 }
    let command = first.flatMap { first in end.map { lines[first...$0] } } ?? lines[...]
    return try words(command.joined(separator: "\n"), file: file, program: program, number: (first ?? 0) + 1)
  }

  /// Whether a line names the program and is no comment. The commands of ghostunnel's may follow in the next line.
  private static func starts(_ line: Substring, _ program: String) -> Bool {
    let words = line.split { " \t\"'".contains($0) }
    guard words.first?.hasPrefix("#") == false, let place = words.firstIndex(where: { isName($0, program) }) else {
      return false
    }
    return words[place...].contains { ["server", "client", "\\"].contains($0) }
  }

  private static func isName(_ word: some StringProtocol, _ program: String) -> Bool {
    word == program || word.hasSuffix("/\(program)") || word.hasSuffix("=\(program)")
  }

  private static func words(
    _ text: String, file: String, program: String, number first: Int
  ) throws(Fault) -> [OldLine] {
    var words: [OldLine] = []
    var word: [UInt8]?
    var quote: UInt8?
    var number = first
    var start = first
    var isEnded = false
    var isEscaped = false
    var isComment = false

    func ended() {
      guard let bytes = word else { return }
      words.append(OldLine(file: file, number: start, text: String(decoding: bytes, as: UTF8.self)))
      word = nil
    }

    func add(_ byte: UInt8) {
      if word == nil { (word, start) = ([], number) }
      word?.append(byte)
    }

    for byte in Array(text.utf8) {
      defer { if byte == UInt8(ascii: "\n") { number += 1 } }
      if isComment {
        if byte == UInt8(ascii: "\n") { isComment = false }
        continue
      }
      if isEscaped {
        isEscaped = false
        // A line that goes on.
        if byte != UInt8(ascii: "\n"), byte != UInt8(ascii: "\r") { add(byte) }
        continue
      }
      if let open = quote {
        if byte == open {
          quote = nil
        } else if byte == UInt8(ascii: "\\"), open == UInt8(ascii: "\"") {
          isEscaped = true
        } else {
          add(byte)
        }
        continue
      }
      switch byte {
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"): ended()
      case _ where isEnded:
        throw Fault(
          line: OldLine(file: file, number: number, text: "&"),
          reason: "one command line is expected, and nothing of a shell's")
      case UInt8(ascii: "\\"): isEscaped = true
      case UInt8(ascii: "\""), UInt8(ascii: "'"):
        quote = byte
        if word == nil { (word, start) = ([], number) }
      // A shell starts the program in the background, which may stand at the end.
      case UInt8(ascii: "&"):
        ended()
        isEnded = true
      case UInt8(ascii: "#") where word == nil: isComment = true
      case UInt8(ascii: "|"), UInt8(ascii: ";"), UInt8(ascii: ">"), UInt8(ascii: "<"),
        UInt8(ascii: "`"):
        throw Fault(
          line: OldLine(file: file, number: number, text: String(UnicodeScalar(byte))),
          reason: "one command line is expected, and nothing of a shell's")
      default: add(byte)
      }
    }
    if quote != nil {
      throw Fault(line: OldLine(file: file, number: start, text: ""), reason: "a quote isn't closed")
    }
    ended()
    let plain = words.map { OldLine(file: $0.file, number: $0.number, text: OldText.plain(Array($0.text.utf8))) }
    let name = plain.firstIndex { isName($0.text, program) }
    return name.map { Array(plain[($0 + 1)...]) } ?? plain
  }
}
