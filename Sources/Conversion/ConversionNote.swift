/// What became of one line of the old configuration.
package struct ConversionNote: Sendable, Hashable, CustomStringConvertible {
  package enum Outcome: String, Sendable, Hashable, CaseIterable {
    /// It means the same in the new configuration.
    case taken
    /// The new configuration does something else, which the reason tells. It lets in nobody whom the old one refused.
    case changed
    /// The new configuration doesn't do it, and the reason says what to do.
    case refused
  }

  package let outcome: Outcome
  package let line: OldLine
  package let reason: String

  package init(_ outcome: Outcome, _ line: OldLine, _ reason: String) {
    self.outcome = outcome
    self.line = line
    self.reason = reason
  }

  package var description: String {
    "\(line.file):\(line.number): \(outcome.rawValue): \(line.text)" + (reason.isEmpty ? "" : ": \(reason)")
  }

  /// As a comment of the new configuration.
  var comment: [String] { ["# \(line.file):\(line.number): \(line.text)", "#   \(outcome.rawValue): \(reason)"] }
}

/// A configuration of ours, and what became of each line of the old one.
package struct Converted: Sendable, Hashable {
  package let text: String
  /// In the order of the old lines.
  package let notes: [ConversionNote]
  /// Whether a server is left. Without one, the text is comments, and nothing starts with it.
  package let hasServers: Bool

  /// Servers whose pins are to be filled in.
  package let gaps: [TrustGap]

  /// Notes of the lines that a block of the text was made of, by the line on which the block begins.
  let parts: [Int: [ConversionNote]]

  init(
    text: String, notes: [ConversionNote], hasServers: Bool, gaps: [TrustGap] = [], parts: [Int: [ConversionNote]] = [:]
  ) {
    self.text = text
    self.notes = notes
    self.hasServers = hasServers
    self.gaps = gaps
    self.parts = parts
  }

  /// Whether nothing was refused.
  package var isWhole: Bool { !notes.contains { $0.outcome == .refused } }
}
