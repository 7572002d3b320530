public import Bytes

/// What the groups of a pattern matched, as ranges of the subject: $1 to $9 and the named ones.
///
/// It keeps its storage, so that the next match allocates nothing.
public struct Captures: Sendable {
  private var ranges: [ByteRange?] = []

  public init() {}

  /// The number of groups of the last match, including group 0; 0 without a match.
  public var count: Int { ranges.count }

  /// Returns a group's range; nil when the group took no part in the match or does not exist. Group 0 is the whole
  /// match.
  public subscript(group: Int) -> ByteRange? { ranges.indices.contains(group) ? ranges[group] : nil }

  public mutating func removeAll() { ranges.removeAll(keepingCapacity: true) }

  mutating func fill(_ places: UnsafePointer<Int>, set: Int, of groups: Int, subjectLength: Int) {
    for group in 0..<groups {
      let (start, end) = (places[2 * group], places[2 * group + 1])
      // PCRE2_UNSET is ~0. With `\K` in a lookahead, the start can be after the end.
      let isSet = group < set && start >= 0 && start <= end && end <= subjectLength
      ranges.append(isSet ? ByteRange(start: start, count: end - start) : nil)
    }
  }
}
