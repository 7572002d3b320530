import Observability
import Transport
import Upstream

/// What a worker remembers of its searches for connections to end, at the limit of `worker_connections`.
///
/// Pure: the caller brings the time (milliseconds of one monotonic clock).
package struct ConnectionShortage {
  /// The time of the last search without a result. A search goes through all connections, so there is at most one such
  /// search in a millisecond.
  private var foundNothingAt: UInt64?

  func maySearch(now: UInt64) -> Bool { foundNothingAt != now }

  mutating func didSearch(now: UInt64, ended: Int) { foundNothingAt = ended == 0 ? now : nil }

  /// What happens to connections because there are too few.
  package enum Measure: String {
    case reuse = ", reusing connections"
    case wait = ", new clients wait"
    case attempt = ", requests wait for a connection to an upstream"
    case refuse = ""
  }
}

extension Worker {
  /// Ends connections by `EvictionOrder`, but none on which bytes wait to be read, unless we don't read them yet; returns
  /// how many.
  func endLeastWanted() -> Int {
    var candidates: [EvictionOrder.Candidate] = [], owners: [ClientSession] = []
    for session in sessions.values {
      guard let rank = session.evictionRank else { continue }
      candidates.append(EvictionOrder.Candidate(rank: rank, since: session.idleSince))
      owners.append(session)
    }
    let order = EvictionOrder(candidates, limit: budget.limit, now: loop.now)
    for rank in EvictionOrder.Rank.allCases {
      let sessions = order.indexes(of: rank).map { owners[$0] }
      let ended = rank == .idle ? endIdle(sessions) : end(sessions, rank)
      for _ in 0..<ended { counters.limits.count(rank.event) }
      if ended > 0 { return ended }
    }
    return 0
  }

  private func end(_ sessions: [ClientSession], _ rank: EvictionOrder.Rank) -> Int {
    let quota = EvictionOrder.quota(of: rank, sessions.count)
    var ended = 0
    for session in sessions where ended < quota {
      if handshakes.isWaiting(session) {
        // What it has sent stays unread until its turn comes.
        session.cut()
      } else if !session.cutUnlessSpeaking() {
        continue
      }
      ended += 1
    }
    return ended
  }

  /// Ends clients and idle connections to upstreams, by the time for which they have idled.
  private func endIdle(_ sessions: [ClientSession]) -> Int {
    let groups = (leaving + (live.map { [$0] } ?? [])).flatMap(\.groups).filter { $0.oldestIdle != nil }
    let quota = EvictionOrder.quota(of: .idle, sessions.count + groups.reduce(0) { $0 + $1.idleCount })
    var clients = sessions[...], ended = 0
    while ended < quota {
      let group = groups.min { ($0.oldestIdle ?? .max) < ($1.oldestIdle ?? .max) }
      if let group, let since = group.oldestIdle, since < clients.first?.idleSince ?? .max {
        group.closeOldestIdle()
        ended += 1
      } else if let client = clients.popFirst() {
        if client.cutUnlessSpeaking() { ended += 1 }
      } else {
        break
      }
    }
    return ended
  }

  package func tellShortage(_ measure: ConnectionShortage.Measure) {
    let level = if case .refuse = measure { LogLevel.alert } else { LogLevel.warn }
    let (limit, effect) = (budget.limit, measure.rawValue)
    guard lacksDescriptors else {
      return tellOfRepeated(level, "\(limit) worker_connections are not enough\(effect)")
    }
    // More worker_connections would mend nothing here.
    tellOfRepeated(
      level, "\(limit) connections, all that the limit of open files leaves a worker, are not enough\(effect)")
  }
}

extension EvictionOrder.Rank {
  fileprivate var event: LimitEvent {
    switch self {
    case .opening, .waiting: .openingEnded
    case .idle: .idleEnded
    case .head: .headEnded
    case .verified: .verifiedEnded
    }
  }
}
