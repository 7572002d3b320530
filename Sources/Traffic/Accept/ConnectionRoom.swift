/// The places of one worker under `worker_connections`, and whether another client may have one. Pure.
///
/// A client whose request goes to an upstream takes two places. If clients took all of them, no request could go on: so a
/// client gets a place only where one is left for each client that is about to need a connection to an upstream.
package struct ConnectionRoom {
  package let limit: Int
  /// Places that are taken, by clients and by connections to upstreams.
  package let used: Int
  /// Clients whose handshake isn't over.
  package let opening: Int
  /// Exchanges that haven't begun their first attempt at an upstream.
  package let expecting: Int

  enum Vacancy {
    case free
    /// A place is left, but somebody here is about to take it.
    case promised
    case none
  }

  var vacancy: Vacancy {
    if used >= limit { return .none }
    return used + opening + expecting < limit ? .free : .promised
  }
}

/// What a worker does with new clients while it has no place for them: they wait in the kernel's queue for some time,
/// and then they are refused. Pure: the caller brings the time (milliseconds of one monotonic clock).
struct AcceptQueue {
  enum Answer: Equatable {
    case serve, wait, refuse
  }

  /// Milliseconds without a free place, after which waiting is of no use (`client_queue_timeout`).
  let patience: UInt64
  /// The time since which no place has been free.
  private(set) var shortSince: UInt64?

  init(patience: UInt64) { self.patience = patience }

  mutating func answer(_ vacancy: ConnectionRoom.Vacancy, now: UInt64) -> Answer {
    guard vacancy != .free else {
      shortSince = nil
      return .serve
    }
    // A clock that goes back must not refuse anybody.
    let since = min(shortSince ?? now, now)
    shortSince = since
    if now - since < patience { return .wait }
    return vacancy == .promised ? .serve : .refuse
  }
}
