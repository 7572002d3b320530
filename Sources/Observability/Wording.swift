/// The text of a diagnostic, in which what we wrote and what a user wrote stay apart: a directive has another name for
/// another module, and must be renamed in our words only.
///
/// The literal parts are ours, and the interpolated ones a user's. A text that comes as a `String` counts as ours.
public struct Wording: Sendable, Hashable, ExpressibleByStringInterpolation {
  public struct StringInterpolation: StringInterpolationProtocol {
    fileprivate var parts: [Part] = []

    public init(literalCapacity: Int, interpolationCount: Int) {}
    public mutating func appendLiteral(_ literal: String) { parts.append(Part(text: literal, isOurs: true)) }
    public mutating func appendInterpolation(_ value: some Any) { parts.append(Part(text: "\(value)", isOurs: false)) }
    public mutating func appendInterpolation(_ wording: Wording) { parts += wording.parts }
  }

  fileprivate struct Part: Sendable, Hashable {
    var text: String
    let isOurs: Bool
  }

  private var parts: [Part]

  public init(_ text: String) { parts = [Part(text: text, isOurs: true)] }
  public init(stringLiteral text: String) { self.init(text) }
  public init(stringInterpolation: StringInterpolation) { parts = stringInterpolation.parts }

  public var text: String { parts.reduce(into: "") { $0 += $1.text } }

  /// Our words, with a mark for each of a user's.
  var skeleton: String { parts.reduce(into: "") { $0 += $1.isOurs ? $1.text : "…" } }

  /// At most eight of our words, joined by hyphens. Of a text that came as a whole, what stands in quotes is a user's.
  var code: String {
    var words: [Substring] = []
    var isQuoted = false
    for piece in skeleton.split(separator: " ") {
      let quotes = piece.count { $0 == "\"" || $0 == "`" }
      defer { if quotes % 2 == 1 { isQuoted.toggle() } }
      guard !isQuoted, quotes == 0 else { continue }
      let word = piece.drop { !$0.isLetter }.prefix { $0.isLetter || $0 == "'" }
      let isWord = !word.isEmpty && !piece.contains { $0.isNumber || $0 == "/" || $0 == "." || $0 == "…" || $0 == "$" }
      if isWord { words.append(word) }
    }
    return words.prefix(8).joined(separator: "-").lowercased().replacing("'", with: "")
  }

  /// Replaces a piece of our words.
  package mutating func replace(_ piece: String, with other: String) {
    for index in parts.indices where parts[index].isOurs {
      parts[index].text = parts[index].text.replacing(piece, with: other)
    }
  }

  public static func == (left: Wording, right: Wording) -> Bool { left.text == right.text }
  public func hash(into hasher: inout Hasher) { hasher.combine(text) }
}
