import Upstream

/// What happens at the limit of `worker_connections`, as in nginx: the worker closes the connections that have been
/// idle longest, and logs this at most once a second.
///
/// Pure: the caller brings the time (milliseconds of one monotonic clock).
struct IdleEviction {
  /// The time of the last search without a result. A search goes through all connections, so there is at most one such
  /// search in a millisecond.
  private var foundNothingAt: UInt64?
  private var saidAt: UInt64?
  private static let sayingPause: UInt64 = 1000
  private static let mostAtOnce = 32

  /// How many of `idle` connections one search closes, as nginx's `ngx_drain_connections` does.
  static func quota(idle: Int) -> Int { min(idle, max(1, min(mostAtOnce, idle / 8))) }

  func maySearch(now: UInt64) -> Bool { foundNothingAt != now }

  mutating func didSearch(now: UInt64, ended: Int) { foundNothingAt = ended == 0 ? now : nil }

  mutating func isToBeSaid(now: UInt64) -> Bool {
    if let saidAt, now &- saidAt < Self.sayingPause { return false }
    saidAt = now
    return true
  }
}

extension Worker {
  /// Ends the connections, of clients and to upstreams, that have idled longest; returns how many.
  func endOldestIdle() -> Int {
    let clients = sessions.values.filter(\.isReusable).sorted { $0.idleSince < $1.idleSince }
    let groups = (leaving + (live.map { [$0] } ?? [])).flatMap(\.allGroups).filter { $0.oldestIdle != nil }
    let quota = IdleEviction.quota(idle: clients.count + groups.reduce(0) { $0 + $1.idleCount })
    var nextClient = clients.makeIterator()
    var client = nextClient.next()
    for _ in 0..<quota {
      let group = groups.min { ($0.oldestIdle ?? .max) < ($1.oldestIdle ?? .max) }
      if let group, let since = group.oldestIdle, since < client?.idleSince ?? .max {
        group.closeOldestIdle()
      } else {
        client?.cut()
        client = nextClient.next()
      }
    }
    return quota
  }
}
