/// What the daemon is about: a pure value. Events in, one action out.
///
/// `Successor` is a generation that is ready to serve; the state only passes it on.
struct SupervisorState<Successor> {
  enum Phase: Sendable, Hashable {
    case starting
    case serving
    /// `again`: another HUP came meanwhile. Several are one.
    case reloading(again: Bool)
    /// No new connections; the exchanges under way end.
    case draining
    case stopping
  }

  enum Action {
    case none
    /// Tell the world that we serve.
    case announce
    case reload
    /// Put it in the place of what serves.
    case swap(Successor)
    case drain
    /// Cut what is left, and exit.
    case stop
  }

  private(set) var phase = Phase.starting

  /// Every worker serves the first generation.
  mutating func started() -> Action {
    guard phase == .starting else { return .none }
    phase = .serving
    return .announce
  }

  /// HUP.
  mutating func reloadAsked() -> Action {
    switch phase {
    case .serving:
      phase = .reloading(again: false)
      return .reload
    case .reloading:
      phase = .reloading(again: true)
      return .none
    case .starting, .draining, .stopping: return .none
    }
  }

  /// A reload has its generation, with sockets bound. Whoever drains takes none any more.
  mutating func prepared(_ successor: Successor) -> Action {
    if case .reloading = phase { .swap(successor) } else { .none }
  }

  /// Swapped, or refused.
  mutating func reloadEnded() -> Action {
    guard case .reloading(let again) = phase else { return .none }
    phase = again ? .reloading(again: false) : .serving
    return again ? .reload : .none
  }

  /// QUIT.
  mutating func drainAsked() -> Action {
    switch phase {
    case .serving, .reloading:
      phase = .draining
      return .drain
    // There is nothing to drain yet.
    case .starting: return stopAsked()
    case .draining, .stopping: return .none
    }
  }

  /// TERM or INT; or drained, or the time to drain has passed.
  mutating func stopAsked() -> Action {
    guard phase != .stopping else { return .none }
    phase = .stopping
    return .stop
  }
}

extension SupervisorState: Sendable where Successor: Sendable {}
extension SupervisorState.Action: Sendable where Successor: Sendable {}
extension SupervisorState.Action: Equatable where Successor: Equatable {}
