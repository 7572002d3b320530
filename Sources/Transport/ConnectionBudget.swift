/// `worker_connections`: how many connections, of clients and to upstreams, one worker may hold.
public final class ConnectionBudget {
  public let limit: Int
  public private(set) var used = 0
  /// Makes room by ending what idles; asked when there is none. Set once, by the worker.
  public var makeRoom: (() -> Void)?

  public init(limit: Int) { self.limit = limit }

  /// False when there is no room, and none can be made.
  public func take() -> Bool {
    if used >= limit { makeRoom?() }
    guard used < limit else { return false }
    used += 1
    return true
  }

  public func giveBack() { used = max(0, used - 1) }
}
