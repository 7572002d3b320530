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

  /// Replaces a piece of our words.
  package mutating func replace(_ piece: String, with other: String) {
    for index in parts.indices where parts[index].isOurs {
      parts[index].text = parts[index].text.replacing(piece, with: other)
    }
  }

  public static func == (left: Wording, right: Wording) -> Bool { left.text == right.text }
  public func hash(into hasher: inout Hasher) { hasher.combine(text) }
}
