/// `worker_connections`: how many connections, of clients and to upstreams, one worker may hold.
public final class ConnectionBudget {
  public let limit: Int
  public private(set) var used = 0
  /// The most that were used at a time since `takeMost`.
  private var most = 0
  /// Ends connections that can be spared; called at the limit. The worker sets it once.
  public var makeRoom: (() -> Void)?

  /// A place has become free. The worker sets it once.
  public var didFree: (() -> Void)?

  public var isFull: Bool { used >= limit }

  /// Places beyond `limit` for clients of listeners that have nothing but pages for operators: whoever has to find out why
  /// no place is left needs one.
  public static let reserve = 4

  public init(limit: Int) { self.limit = limit }

  /// Takes one place; returns false if there is none and none can be freed.
  public func take() -> Bool {
    if used >= limit { makeRoom?() }
    guard used < limit else { return false }
    used += 1
    most = max(most, used)
    return true
  }

  /// Takes one place, of the reserve if no other is left; returns false if the reserve is used up, too.
  public func takeReserved() -> Bool {
    guard used < limit || used - limit < Self.reserve else { return false }
    used += 1
    most = max(most, used)
    return true
  }

  /// How many were used at most since the last call.
  public func takeMost() -> Int {
    defer { most = used }
    return most
  }

  public func giveBack() {
    used = max(0, used - 1)
    didFree?()
  }
}
