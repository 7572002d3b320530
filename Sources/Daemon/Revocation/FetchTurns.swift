/// When a revocation list is asked for again: a value without a clock of its own.
///
/// A list that came is asked for again after `refresh`, or when the response's lifetime or half of the list's remaining
/// time is over, if that is sooner. After a failure the next question follows after 4 s, 8 s, 16 s and so on, up to five
/// minutes. All times vary by a tenth, so that many machines don't ask at once.
struct FetchTurns: Sendable, Equatable {
  /// Seconds of the monotonic clock.
  private(set) var dueAt: Int64
  /// In a row.
  private(set) var failures = 0
  private(set) var isAsking = false

  static let shortestRetry: Int64 = 4
  static let longestRetry: Int64 = 300
  /// A response's own lifetime never makes the server ask more often than this.
  static let shortestLifetime: Int64 = 60

  /// A new list is asked for at once.
  init(now: Int64) { dueAt = now }

  /// Returns whether to ask now. After true, call `succeeded` or `failed` once.
  mutating func begins(at now: Int64) -> Bool {
    guard !isAsking, now >= dueAt else { return false }
    isAsking = true
    return true
  }

  /// `left`: seconds until the list ends; nil for never. `freshFor`: the response's own lifetime in seconds. `chance`: 0
  /// up to 1.
  mutating func succeeded(at now: Int64, refresh: Int, freshFor: Int64?, left: Int64?, chance: Double) {
    (isAsking, failures) = (false, 0)
    var wait = Int64(max(1, refresh))
    if let freshFor { wait = min(wait, max(Self.shortestLifetime, freshFor)) }
    if let left { wait = min(wait, max(1, left / 2)) }
    dueAt = now &+ Self.varied(wait, chance)
  }

  mutating func failed(at now: Int64, chance: Double) {
    isAsking = false
    failures = min(failures + 1, 1 << 20)
    let doubled = Self.shortestRetry << Int64(min(failures - 1, 16))
    dueAt = now &+ Self.varied(min(doubled, Self.longestRetry), chance)
  }

  /// Whether the log tells of the last failure: the first, the second, the fourth, the eighth and so on.
  var isTold: Bool { failures > 0 && failures & (failures - 1) == 0 }

  /// Up to a tenth less or more, and at least a second.
  private static func varied(_ seconds: Int64, _ chance: Double) -> Int64 {
    let bounded = min(seconds, 1 << 32)
    return max(1, bounded + Int64(Double(bounded) * 0.1 * (2 * min(1, max(0, chance)) - 1)))
  }
}
