import Testing

@testable import Language

@Suite struct `A word that a command writes` {
  /// Everything that has a meaning in the language, and what looks like it.
  private static let pieces = [
    "\"", "'", "\\", ";", "{", "}", "#", "$", "${a}", " ", "\n", "\r", "\t", "\\n", "\\\"", "\\\\", "=", "~", "ü", "🙂",
    "a",
    "\u{7F}", "\u{1}", "include", ")", "%", "\u{FEFF}", "\r\n",
  ]

  private func readBack(_ text: String, _ written: String) -> [[String]]? {
    var parser = Parser(mainFile: "x", files: .none)
    let tree = parser.parse(bytes: Array("first \(written) last;\nsecond;".utf8), path: "x")
    guard parser.diagnostics.isEmpty else { return nil }
    return tree.map { [$0.name] + $0.arguments.map(\.text) }
  }

  @Test func `is read back as it was, on one line, whatever it contains`() {
    var random = SystemRandomNumberGenerator()
    var texts = ["", "/etc/ssl/a.pem", "sha256//AA=", "*.example.com"] + Self.pieces
    for _ in 0..<20_000 {
      texts.append((0..<Int.random(in: 1...8, using: &random)).map { _ in Self.pieces.randomElement() ?? "" }.joined())
    }
    for text in texts {
      for written in [ConfigurationWord.quoted(text), ConfigurationWord.written(text)] {
        #expect(!written.utf8.contains(0x0A))
        #expect(
          readBack(text, written) == [["first", text, "last"], ["second"]], "\(text.debugDescription): \(written)")
      }
    }
    #expect(readBack("", ConfigurationWord.quoted("a\0b")) == nil)
    #expect(ConfigurationWord.written("/etc/a.pem") == "/etc/a.pem")
    #expect(ConfigurationWord.written("") == "\"\"")
  }
}
