/// The memory that all kept bodies of one worker may take: of requests, or of responses. For objects of one loop.
///
/// The limit for one body suits one client. Without a common limit, a thousand slow clients would take a gigabyte.
public final class BodyMemoryBudget {
  public private(set) var used = 0
  private let limit: Int
  /// `client_body_buffer_size` of nginx on 64-bit machines.
  public static let smallAllowance = 16 * 1024

  /// `limit`: in bytes.
  public init(limit: Int) { self.limit = limit }

  /// Returns the number of bytes that a body with this allowance may take now.
  public func bound(_ allowance: Int) -> Int { used < limit ? allowance : min(allowance, Self.smallAllowance) }

  /// Returns whether a body that must stay in memory may grow to `total` bytes, of which it has `own` already. Only the
  /// other bodies count against the limit, so one body alone can be larger than the limit.
  public func admits(_ total: UInt64, having own: Int) -> Bool {
    total <= UInt64(Self.smallAllowance) || used - own < limit
  }

  public func take(_ count: Int) { used += count }
  public func giveBack(_ count: Int) { used = max(0, used - count) }
}
