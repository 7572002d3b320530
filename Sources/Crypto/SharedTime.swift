import Observability

/// The time that several parties have together which are asked one after the other. Each has the share of those that are
/// left, so one that answers soon leaves its rest to the others. Counts by the monotonic clock, which nobody sets.
package struct SharedTime: Sendable {
  private let end: UInt64

  package init(milliseconds: UInt64, now: UInt64 = MonotonicClock.milliseconds) { end = now &+ milliseconds }

  /// The milliseconds of the next of `count` parties; nil: no time is left.
  package func share(of count: Int, now: UInt64 = MonotonicClock.milliseconds) -> UInt64? {
    guard end > now else { return nil }
    return max(1, (end - now) / UInt64(clamping: max(1, count)))
  }
}
