/// A command line in a text: words as a shell splits them, with continued lines. Nothing is expanded.
enum CommandLineText {
  struct Fault: Error {
    let line: OldLine
    let reason: String
  }

  /// The words behind the program's name; all words without it.
  static func words(_ text: String, file: String, program: String) throws(Fault) -> [OldLine] {
    var words: [OldLine] = []
    var word: [UInt8]?
    var quote: UInt8?
    var number = 1
    var start = 1
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
      case UInt8(ascii: "\\"): isEscaped = true
      case UInt8(ascii: "\""), UInt8(ascii: "'"):
        quote = byte
        if word == nil { (word, start) = ([], number) }
      case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"): ended()
      case UInt8(ascii: "#") where word == nil: isComment = true
      case UInt8(ascii: "|"), UInt8(ascii: "&"), UInt8(ascii: ";"), UInt8(ascii: ">"), UInt8(ascii: "<"),
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
    let name = plain.firstIndex {
      $0.text == program || $0.text.hasSuffix("/\(program)") || $0.text.hasSuffix("=\(program)")
    }
    return name.map { Array(plain[($0 + 1)...]) } ?? plain
  }
}
