package import Observability

/// What `ca inspect` says about one object: facts in order, and what is wrong with it.
///
/// Whoever made the file chose its texts. So the text form escapes control characters, which a terminal would obey, and
/// characters that change the direction of writing, which would show a name that is not there.
package struct InspectionPage: Sendable {
  package enum Value: Sendable, Hashable {
    case text(String)
    case number(Int64)
    case truth(Bool)
    case list([String])
  }

  struct Fact: Sendable {
    /// The words of the text form; nil for a fact of JSON alone.
    let label: String?
    /// The member's name in JSON.
    let key: String
    let value: Value
    /// What follows the value in the text form, such as "in 364 days".
    var note: String?
  }

  /// `certificate`, `request`, `list`, `public_key`, `private_key`, `other`.
  let kind: String
  let title: String
  private(set) var facts: [Fact] = []
  /// Sentences about what is wrong.
  package private(set) var warnings: [String] = []

  mutating func say(_ label: String?, _ key: String, _ value: Value, note: String? = nil) {
    facts.append(Fact(label: label, key: key, value: value, note: note))
  }

  mutating func warn(_ sentence: String, when holds: Bool = true) {
    if holds { warnings.append(sentence) }
  }

  // MARK: Text

  /// The most values of one fact that the text form prints; JSON has all.
  private static let valueLimit = 50

  package var text: String {
    var lines = [Self.visible(title)]
    for fact in facts {
      guard let label = fact.label else { continue }
      let values = Self.words(fact.value)
      for (place, value) in values.prefix(Self.valueLimit).enumerated() {
        let head = place == 0 ? label : ""
        let padding = String(repeating: " ", count: max(1, 18 - head.utf8.count))
        lines.append("  \(head)\(padding)\(Self.visible(value))" + (fact.note.map { " (\($0))" } ?? ""))
      }
      let hidden = values.count - Self.valueLimit
      if hidden > 0 { lines.append(String(repeating: " ", count: 20) + "… and \(hidden) more") }
    }
    lines += warnings.map { "  WARNING: \(Self.visible($0))" }
    return lines.joined(separator: "\n")
  }

  private static func words(_ value: Value) -> [String] {
    switch value {
    case .text(let text): [text]
    case .number(let number): ["\(number)"]
    case .truth(let holds): [holds ? "yes" : "no"]
    case .list(let list): list.isEmpty ? ["none"] : list
    }
  }

  /// Escapes controls (Cc) and format characters (Cf, among them the marks of direction) as `\u{HEX}` or `\xHH`.
  package static func visible(_ text: String) -> String {
    let plain = text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .format }
    guard !plain else { return LogEscape.visible(text) }
    return LogEscape.visible(
      text.unicodeScalars.map { scalar in
        scalar.properties.generalCategory == .format
          ? "\\u{\(String(scalar.value, radix: 16, uppercase: true))}" : String(scalar)
      }.joined())
  }

  // MARK: JSON

  package func write(_ json: inout JSONText) {
    json.object { json in
      json.member("kind", kind)
      for fact in facts {
        switch fact.value {
        case .text(let text): json.member(fact.key, text)
        case .number(let number): json.member(fact.key, number)
        case .truth(let holds): json.member(fact.key, holds)
        case .list(let list): json.array(fact.key, list) { $1.value($0) }
        }
      }
      json.array("warnings", warnings) { $1.value($0) }
    }
  }
}
