/// `worker_connections`: how many connections, of clients and to upstreams, one worker may hold.
public final class ConnectionBudget {
  public let limit: Int
  public private(set) var used = 0

  public init(limit: Int) { self.limit = limit }

  /// False when there is no room.
  public func take() -> Bool {
    guard used < limit else { return false }
    used += 1
    return true
  }

  public func giveBack() { used = max(0, used - 1) }
}
