/// What the daemon is about: a pure value. Events in, one action out.
struct SupervisorState: Sendable {
  enum Phase: Sendable, Hashable {
    case starting
    case serving
    /// `again`: another HUP came meanwhile. Several are one.
    case reloading(again: Bool)
    /// No new connections; the exchanges under way end.
    case draining
    case stopping
  }

  enum Action: Sendable {
    case none
    /// Tell the world that we serve.
    case announce
    case reload
    /// Put the prepared generation in the place of the one that serves.
    case swap(Preparation, ListeningSockets)
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

  /// The new generation is complete and its sockets are bound. Whoever drains takes none any more.
  mutating func prepared(_ next: Preparation, _ sockets: ListeningSockets) -> Action {
    if case .reloading = phase { .swap(next, sockets) } else { .none }
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
