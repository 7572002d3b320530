public import Bytes

/// What the groups of a pattern matched, as ranges of the subject: $1 to $9 and the named ones.
///
/// Keeps its storage, so that a match into one that was used before allocates nothing.
public struct Captures: Sendable {
  private var ranges: [ByteRange?] = []

  public init() {}

  /// Groups of the last match, group 0 counted; 0 when there was none.
  public var count: Int { ranges.count }

  /// A group's range; nil when it took no part in the match or there is no such group. Group 0 is the whole match.
  public subscript(group: Int) -> ByteRange? { ranges.indices.contains(group) ? ranges[group] : nil }

  public mutating func removeAll() { ranges.removeAll(keepingCapacity: true) }

  mutating func fill(_ places: UnsafePointer<Int>, set: Int, of groups: Int, subjectLength: Int) {
    for group in 0..<groups {
      let (start, end) = (places[2 * group], places[2 * group + 1])
      // PCRE2_UNSET is ~0; `\K` in a lookahead can put the start behind the end.
      let isSet = group < set && start >= 0 && start <= end && end <= subjectLength
      ranges.append(isSet ? ByteRange(start: start, count: end - start) : nil)
    }
  }
}
