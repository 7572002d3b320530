/// A word as bytes, for the edit distance in "did you mean" hints.
package struct Spelling: Sendable {
  private let text: String
  private let letters: [UInt8]
  /// The set of bytes in the word, folded to 64 bits. One edit changes at most two bits; that rules out most words.
  private let set: UInt64

  package init(_ text: String) {
    self.text = text
    letters = Array(text.utf8.prefix(64))
    set = letters.reduce(0) { $0 | 1 << UInt64($1 & 63) }
  }

  /// Returns the candidate with the fewest edits, if the edits are few for its length.
  package static func nearest(to word: String, among candidates: [String]) -> String? {
    nearest(to: word, among: candidates.map { Spelling($0) })
  }

  package static func nearest(to word: String, among candidates: [Spelling]) -> String? {
    let word = Spelling(word)
    let bound = max(1, min(4, word.letters.count / 3))
    var best: (name: String, distance: Int)?
    for candidate in candidates {
      let bound = best.map { $0.distance - 1 } ?? bound
      guard (word.set ^ candidate.set).nonzeroBitCount <= 2 * bound else { continue }
      let distance = distance(word.letters, candidate.letters, bound: bound)
      if let distance { best = (candidate.text, distance) }
    }
    return best?.name
  }

  /// Counts insertions, deletions, replacements and swaps of neighbours; returns nil above the bound.
  private static func distance(_ left: [UInt8], _ right: [UInt8], bound: Int) -> Int? {
    guard bound >= 0, abs(left.count - right.count) <= bound else { return nil }
    var beforePrevious: [Int] = []
    var previous = Array(0...right.count)
    for (row, byte) in left.enumerated() {
      var current = [row + 1]
      current.reserveCapacity(right.count + 1)
      for (column, other) in right.enumerated() {
        var cost = min(previous[column + 1] + 1, current[column] + 1, previous[column] + (byte == other ? 0 : 1))
        if row > 0, column > 0, byte == right[column - 1], left[row - 1] == other {
          cost = min(cost, beforePrevious[column - 1] + 1)
        }
        current.append(cost)
      }
      guard let least = current.min(), least <= bound else { return nil }
      beforePrevious = previous
      previous = current
    }
    return previous[right.count] <= bound ? previous[right.count] : nil
  }
}
