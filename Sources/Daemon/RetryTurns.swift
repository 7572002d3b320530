/// When files that were refused are tried again: they may have been refused for what passes (no descriptor left, a file
/// system that was away), and a revocation must not be lost with it.
///
/// Counts the looks on the clock: after 2 of them, then 4, 8 and so on to 16.
struct RetryTurns: Sendable, Equatable {
  private var left: Int?
  private var wait = 2
  private static let longest = 16

  mutating func failed() {
    left = wait
    wait = min(wait * 2, Self.longest)
  }

  /// Called with each look; true once for each failure.
  mutating func isDue() -> Bool {
    guard let turns = left else { return false }
    left = turns > 1 ? turns - 1 : nil
    return turns <= 1
  }
}
