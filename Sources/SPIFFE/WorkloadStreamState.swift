/// The stream to the Workload API, as a pure state machine: an event goes in, one action comes out.
///
///     idle ──► asking ──► following          asking: no message yet; following: messages replace each other
///       ▲        │  ▲         │
///       │        ▼  │         ▼
///     stopped   pausing ◄─────┘              pausing: until the next try
///
/// The agent is asked again for ever: a process that serves must find an agent that comes back.
package struct WorkloadStreamState: Sendable, Equatable {
  package enum Phase: Sendable, Equatable { case idle, asking, following, pausing, stopped }

  /// Why the stream ended, or could not begin.
  package enum Failure: Sendable, Equatable {
    /// The agent says that the process has no identity (PermissionDenied).
    case denied
    /// Everything else: no socket, Unavailable, a message with a fault, silence.
    case unavailable
  }

  package enum Action: Sendable, Equatable {
    case none
    case connect
    /// Close the connection, and call `timePassed` after these milliseconds.
    case pause(milliseconds: Int)
    /// The same, and the identity is not to be used any more.
    case withdraw(milliseconds: Int)
    case close
  }

  package private(set) var phase = Phase.idle
  /// Tries that failed one after the other.
  package private(set) var failures = 0
  /// When the first of the denials came that follow each other, in milliseconds of a steady clock.
  private var deniedAt: UInt64?

  /// Milliseconds.
  package static let shortestPause = 200, longestPause = 10_000
  /// Milliseconds for which an agent that denies the process an identity is asked on before the identity is given up. An
  /// agent that has just started denies all until it knows its registrations.
  package static let denialPatience: UInt64 = 60_000
  /// Milliseconds in which the first message has to come (SPIFFE_Workload_API §4.3: "as soon as possible").
  package static let answerTime = 30_000

  package init() {}

  package mutating func started() -> Action {
    guard phase == .idle else { return .none }
    phase = .asking
    return .connect
  }

  /// A message was taken.
  package mutating func answered() {
    guard phase == .asking || phase == .following else { return }
    phase = .following
    failures = 0
    deniedAt = nil
  }

  /// `spread`: a random number, so that many processes don't ask at the same moment. `now`: milliseconds.
  package mutating func failed(_ failure: Failure, spread: UInt8, now: UInt64) -> Action {
    guard phase == .asking || phase == .following else { return .none }
    let hadIdentity = phase == .following
    phase = .pausing
    let pause = Self.pause(after: failures, spread: spread)
    failures = min(failures + 1, 64)
    guard failure == .denied else {
      deniedAt = nil
      return .pause(milliseconds: pause)
    }
    let first = deniedAt ?? now
    deniedAt = first
    // The agent itself took it back on a stream on which it had given one (SPIFFE_Workload_API §5.2.1).
    return hadIdentity || now &- first >= Self.denialPatience
      ? .withdraw(milliseconds: pause) : .pause(milliseconds: pause)
  }

  /// The pause is over.
  package mutating func timePassed() -> Action {
    guard phase == .pausing else { return .none }
    phase = .asking
    return .connect
  }

  package mutating func stopped() -> Action {
    phase = .stopped
    return .close
  }

  /// Doubles from `shortestPause` to `longestPause`, and takes up to a quarter off.
  static func pause(after failures: Int, spread: UInt8) -> Int {
    let whole = min(longestPause, shortestPause << min(max(0, failures), 10))
    return whole - whole / 4 * Int(spread) / 255
  }
}
