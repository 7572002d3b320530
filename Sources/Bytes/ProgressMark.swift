/// How many bytes a peer had taken when a deadline was set. `send_timeout` and its like hold between two writes, not for
/// the whole message: a peer that is slow, but takes bytes, gets the time again.
public struct ProgressMark: Sendable {
  private var count: UInt64 = 0

  public init() {}

  /// `count`: bytes that the peer has taken in all; it never falls.
  public mutating func set(_ count: UInt64) { self.count = count }

  /// Whether the peer has taken bytes since `set`.
  public func isPassed(at count: UInt64) -> Bool { count != self.count }
}
