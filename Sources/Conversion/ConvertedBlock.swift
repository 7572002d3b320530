import Language

/// A server or a group of the new configuration while it is made of old lines.
///
/// A line that can't be had closes the block, unless the block is stricter without it: in its place stands `closed`, which
/// lets nobody in.
///
/// Directives of all features have their names here, in text, as in a file that a person writes: an old line means several of
/// them together, and a feature knows none of the old programs. The rows of the features judge the text that comes out.
struct ConvertedBlock {
  /// The line that the block begins with in the old file.
  let head: OldLine
  private(set) var statements: [String] = []
  private(set) var notes: [ConversionNote] = []
  /// What stands there if the block is closed. Empty: nothing does.
  var closed: [String] = []
  private(set) var isClosed = false
  private(set) var gaps: [TrustGap] = []
  /// The name of a group, for `upstream NAME`; nil: it is a server.
  var group: String?

  init(_ head: OldLine) { self.head = head }

  /// Something that no old line says.
  mutating func write(_ name: String, _ words: String...) { add(name, words, nil) }
  mutating func write(_ name: String, _ words: [String]) { add(name, words, nil) }

  /// An old line that means the same here. Without a name, it needs no directive.
  mutating func take(_ line: OldLine, _ name: String? = nil, _ words: String..., because reason: String = "") {
    notes.append(ConversionNote(.taken, line, reason))
    if let name { add(name, words, line) }
  }

  mutating func take(_ line: OldLine, _ name: String, words: [String], because reason: String = "") {
    notes.append(ConversionNote(.taken, line, reason))
    add(name, words, line)
  }

  /// An old line in whose place something else stands.
  mutating func change(_ line: OldLine, _ reason: String, _ name: String? = nil, _ words: String...) {
    note(ConversionNote(.changed, line, reason))
    if let name { add(name, words, line) }
  }

  mutating func change(_ line: OldLine, _ reason: String, _ name: String, words: [String]) {
    note(ConversionNote(.changed, line, reason))
    add(name, words, line)
  }

  /// An old line that can't be had. `closing`: whether the block would let in more without it, or do something else.
  mutating func refuse(_ line: OldLine, _ reason: String, closing: Bool = true) {
    note(ConversionNote(.refused, line, reason))
    if closing { isClosed = true }
  }

  /// A server that the old configuration doesn't verify.
  mutating func leave(_ gap: TrustGap, _ line: OldLine, _ peer: String) {
    refuse(line, gap.reason(peer), closing: false)
    gaps.append(gap)
  }

  /// A block inside, whose lines are complete.
  mutating func nest(_ head: String, _ lines: [String]) {
    statements.append("\(head) {")
    statements += lines.map { "    \($0)" }
    statements.append("}")
  }

  private mutating func note(_ note: ConversionNote) {
    notes.append(note)
    statements += note.comment
  }

  /// A word of the old file is never a variable here.
  private mutating func add(_ name: String, _ words: [String], _ line: OldLine?) {
    if let line, let word = words.first(where: { !ConvertedWord.isConstant($0) }) {
      return refuse(line, "\"\(word)\" has a \"$\" or a control character: rename it")
    }
    statements.append(ConvertedWord.statement(name, words))
  }
}

/// Words of the new configuration.
enum ConvertedWord {
  static func isConstant(_ text: String) -> Bool {
    !text.utf8.contains { $0 == UInt8(ascii: "$") || $0 < 0x20 || $0 == 0x7F }
  }

  static func statement(_ name: String, _ words: [String]) -> String {
    ([name] + words.map { ConfigurationWord.written($0) }).joined(separator: " ") + ";"
  }

  /// The name of a file, which isn't taken for anything else that may stand in its place, such as a pin.
  static func path(_ text: String) -> String {
    if text.hasPrefix("/") || text.hasPrefix("./") || text.hasPrefix("../") { return text }
    let isAmbiguous =
      text.contains(":") || text.hasPrefix("sha256") || ["chain", "on", "off", ""].contains(text.lowercased())
    return isAmbiguous ? "./\(text)" : text
  }

  /// A condition of `ssl_client_allow` that holds for exactly this value; nil for a value that none can have.
  static func condition(_ key: String, _ value: String) -> String? {
    guard !value.isEmpty, !value.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else { return nil }
    let isPlain = !value.contains("*") && !value.hasPrefix("~") && !value.contains("$")
    return isPlain ? "\(key)=\(value)" : "\(key)=~\(expression(of: value))"
  }

  /// A regular expression of this text alone. A "$" would begin a variable, so it is written as its number.
  static func expression(of text: String) -> String {
    var written = ""
    for character in text.unicodeScalars {
      switch character {
      case "$": written += "\\x24"
      case ".", "*", "+", "?", "(", ")", "[", "]", "{", "}", "|", "^", "\\", "/", "-": written += "\\\(character)"
      default: written.unicodeScalars.append(character)
      }
    }
    return written
  }
}
