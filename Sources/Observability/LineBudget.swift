/// How many lines of one kind a second the error log takes; the rest is counted, and told as one line.
///
/// Why: whoever may connect may fail to shake hands, as often as the network carries it. Pure: the caller brings the time
/// (milliseconds of one monotonic clock).
public struct LineBudget: Sendable {
  /// A second.
  public static let lines = 20
  private static let second: UInt64 = 1000

  private var beganAt: UInt64?
  private var written = 0
  private var withheld: UInt64 = 0

  public init() {}

  /// Whether a line of this instant is to be written.
  public mutating func take(now: UInt64) -> Bool {
    if let beganAt, now &- beganAt < Self.second {
      guard written < Self.lines else {
        withheld &+= 1
        return false
      }
    } else {
      beganAt = now
      written = 0
    }
    written += 1
    return true
  }

  /// How many were withheld and not told yet; nil: none.
  public mutating func takeWithheld() -> UInt64? {
    defer { withheld = 0 }
    return withheld == 0 ? nil : withheld
  }
}
