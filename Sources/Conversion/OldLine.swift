/// A line of the configuration that is converted, or an argument of a command line.
package struct OldLine: Sendable, Hashable {
  package let file: String
  /// From 1 on.
  package let number: Int
  /// Without what must not be repeated, such as a password.
  package let text: String

  package init(file: String, number: Int, text: String) {
    self.file = file
    self.number = number
    self.text = text
  }

  /// The same line with a text that doesn't tell its value.
  func masked(_ text: String) -> OldLine { OldLine(file: file, number: number, text: text) }
}

/// The lines of a file, as all of our peers split it.
enum OldText {
  /// Each line with its number, without blanks around it. Carriage returns and other control characters are blanks, so that
  /// no line can end a comment of the new text.
  static func lines(_ text: String, file: String) -> [OldLine] {
    var bytes = Array(text.utf8)[...]
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes = bytes.dropFirst(3) }
    return bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated().map {
      OldLine(file: file, number: $0 + 1, text: plain($1))
    }
  }

  static func plain(_ bytes: some Collection<UInt8>) -> String {
    let printable = bytes.map { $0 < 0x20 || $0 == 0x7F ? UInt8(ascii: " ") : $0 }
    return trimmed(Substring(String(decoding: printable, as: UTF8.self)))
  }

  static func trimmed(_ text: Substring) -> String {
    var rest = text.utf8[...]
    while rest.first == UInt8(ascii: " ") { rest.removeFirst() }
    while rest.last == UInt8(ascii: " ") { rest.removeLast() }
    return String(Substring(rest))
  }
}
