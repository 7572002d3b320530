import Synchronization

/// The identity that this process has of the Workload API, for all threads: what the last message gave it, and how the
/// stream stands. The daemon writes it; loading, metrics and the status read it.
public final class WorkloadIdentity: Sendable {
  /// How the stream to the agent stands.
  public enum Condition: Sendable, Equatable {
    /// No configuration names `spiffe:`, or nothing has been asked yet.
    case unasked
    /// The last message is the current one.
    case current
    /// `since`: seconds since 1970.
    case failing(reason: String, since: Int64)

    /// Since when it fails, in seconds since 1970; nil if it doesn't.
    public var failingSince: Int64? { if case .failing(_, let since) = self { since } else { nil } }
  }

  public struct State: Sendable {
    /// nil before the first message, and after the agent has taken the identity back.
    public var material: WorkloadMaterial?
    public var condition = Condition.unasked
    /// Messages that were taken, those that were refused, and streams that failed, since the start.
    public var taken: UInt64 = 0
    public var refused: UInt64 = 0
    public var failures: UInt64 = 0
    /// Where the agent is: `unix:/run/spire/agent.sock`; nil if no configuration names `spiffe:`.
    public var endpoint: String?

    /// Why there is no identity, for people.
    public var absence: String {
      let place = endpoint.map { "the SPIFFE agent at \($0)" } ?? "the SPIFFE agent"
      return switch condition {
      case .unasked, .current: "\(place) has not answered yet"
      case .failing(let reason, _): "\(place) gives none: \(reason)"
      }
    }

    /// What an operator should look at; nil if nothing. `isFatal`: handshakes that need the identity are refused now, or a
    /// part of the last message is not in effect.
    /// `now`: seconds since 1970.
    public func problem(at now: Int64) -> (isFatal: Bool, text: String)? {
      guard let material else { return (true, "there is no identity, so handshakes are refused: \(absence)") }
      if let reason = material.unusableReason {
        return (true, "an identity can't be used, so handshakes that need it are refused: \(reason)")
      }
      if now < material.end, let fault = material.faults.first {
        return (true, "a part of the agent's last message is NOT in effect: \(fault)")
      }
      guard case .failing(let reason, _) = condition else {
        return now < material.end ? nil : (true, "the identity has ended, and the agent sent no other")
      }
      return now < material.end
        ? (
          false,
          "the agent can't be followed, and the identity ends in \(material.end.subtractingReportingOverflow(now).partialValue) s: \(reason)"
        )
        : (true, "the identity has ended, and the agent can't be followed: \(reason)")
    }
  }

  private let state = Mutex(State())

  public init() {}

  public var current: State { state.withLock { $0 } }

  package func update(_ change: (inout State) -> Void) { state.withLock { change(&$0) } }
}
