/// What the daemon is about: a pure value. Events in, one action out.
///
/// `Successor` is a generation that is ready to serve; the state only passes it on.
struct SupervisorState<Successor> {
  enum Phase: Sendable, Hashable {
    case starting
    case serving
    /// `again`: more was asked for meanwhile. Several are one.
    case reloading(Reload, again: Reload?)
    /// No new connections; the exchanges under way end.
    case draining
    case stopping
  }

  /// What is made anew.
  enum Reload: Sendable, Hashable {
    /// All of it: HUP.
    case configuration
    /// The same configuration with its files as they are now: one has changed.
    case files

    /// Both were asked for.
    func joined(_ other: Reload?) -> Reload {
      self == .configuration || other == .configuration ? .configuration : .files
    }
  }

  enum Action {
    case none
    /// Tell the world that we serve.
    case announce
    case reload(Reload)
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

  /// HUP, or a file that has changed.
  mutating func reloadAsked(_ reload: Reload) -> Action {
    switch phase {
    case .serving:
      phase = .reloading(reload, again: nil)
      return .reload(reload)
    case .reloading(let current, let again):
      phase = .reloading(current, again: reload.joined(again))
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
    guard case .reloading(_, let again) = phase else { return .none }
    phase = again.map { .reloading($0, again: nil) } ?? .serving
    return again.map { .reload($0) } ?? .none
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
