/// Decides when to retry files that were refused. The cause may have been temporary (no free descriptor, an unmounted
/// file system), and a revocation must not be lost with it.
///
/// It counts the timer's comparisons: the first retry comes after 2 of them, the next after 4, 8 and so on, up to 16.
struct RetryTurns: Sendable, Equatable {
  private var left: Int?
  private var wait = 2
  private static let longest = 16

  mutating func failed() {
    left = wait
    wait = min(wait * 2, Self.longest)
  }

  /// Call this with each comparison. Returns true once for each failure.
  mutating func isDue() -> Bool {
    guard let turns = left else { return false }
    left = turns > 1 ? turns - 1 : nil
    return turns <= 1
  }
}
