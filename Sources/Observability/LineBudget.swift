/// Limits the lines of one kind in the error log to a number each second. Further lines are counted and summarised in
/// one line.
///
/// Any client that may connect can fail handshakes as fast as the network allows. This is a value without a clock: the
/// caller passes the time in milliseconds of one monotonic clock.
public struct LineBudget: Sendable {
  /// The number of lines each second.
  public static let lines = 20
  private static let second: UInt64 = 1000

  private var beganAt: UInt64?
  private var written = 0
  private var withheld: UInt64 = 0

  public init() {}

  /// Whether to write a line at this time.
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

  /// Returns how many lines were withheld since the last call; nil for none.
  public mutating func takeWithheld() -> UInt64? {
    defer { withheld = 0 }
    return withheld == 0 ? nil : withheld
  }
}
