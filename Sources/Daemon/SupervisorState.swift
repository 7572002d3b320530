/// The daemon's state, as a pure state machine: an event goes in, one action comes out.
///
/// `Successor` is a generation that is ready to serve; the state only passes it on.
struct SupervisorState<Successor> {
  enum Phase: Sendable, Hashable {
    case starting
    case serving
    /// `again`: the reload that was requested meanwhile; several requests become one.
    case reloading(Reload, again: Reload?)
    /// Running exchanges complete. New connections are accepted only while nobody else could accept them
    /// (`Supervisor.drain`). Files that change are loaded, because a revocation list may refuse a client whose connection
    /// this process still carries; a configuration is not.
    case draining(Loading)
    case stopping
  }

  /// What a reload loads.
  enum Reload: Sendable, Hashable {
    /// The configuration and all files: HUP.
    case configuration
    /// Only the files, because one has changed; the configuration stays.
    case files
    /// The files, because some could not be loaded. Nothing changes if they still can't.
    case retry

    /// The reload that covers both.
    func joined(_ other: Reload?) -> Reload {
      if self == .configuration || other == .configuration { return .configuration }
      return self == .files || other == .files ? .files : .retry
    }
  }

  /// What a draining daemon loads.
  enum Loading: Sendable, Hashable {
    case nothing
    case files
    /// They are loaded once more after this time, because another one has changed meanwhile.
    case filesTwice
    /// The reload that was under way when the drain began. What it brings doesn't count, because it may be another
    /// configuration.
    case outdated
  }

  enum Action {
    case none
    /// Announce that the daemon serves.
    case announce
    case reload(Reload)
    /// Replace the serving generation with this one.
    case swap(Successor)
    case drain
    /// Start the program again (USR2).
    case replace
    /// Close what is still open, and exit.
    case stop
  }

  /// A new process that is to take this one's place.
  enum Replacement: Sendable, Hashable { case none, starting }

  private(set) var phase = Phase.starting
  private(set) var replacement = Replacement.none

  /// Every worker serves the first generation.
  mutating func started() -> Action {
    guard phase == .starting else { return .none }
    phase = .serving
    return .announce
  }

  /// HUP, or a file has changed.
  mutating func reloadAsked(_ reload: Reload) -> Action {
    switch phase {
    case .serving:
      phase = .reloading(reload, again: nil)
      return .reload(reload)
    case .reloading(let current, let again):
      phase = .reloading(current, again: reload.joined(again))
      return .none
    case .draining(let loading):
      if reload == .configuration { return .none }
      if loading == .nothing { return loadFiles() }
      if loading == .files { phase = .draining(.filesTwice) }
      return .none
    case .starting, .stopping: return .none
    }
  }

  /// A reload has its generation, with sockets bound where the daemon still listens.
  mutating func prepared(_ successor: Successor) -> Action {
    switch phase {
    case .reloading, .draining(.files), .draining(.filesTwice): return .swap(successor)
    case .draining(.outdated): return loadFiles()
    case .starting, .serving, .draining(.nothing), .stopping: return .none
    }
  }

  /// The reload was completed or refused.
  mutating func reloadEnded() -> Action {
    switch phase {
    case .reloading(_, let again):
      phase = again.map { .reloading($0, again: nil) } ?? .serving
      return again.map { .reload($0) } ?? .none
    case .draining(.files):
      phase = .draining(.nothing)
      return .none
    case .draining(.filesTwice), .draining(.outdated): return loadFiles()
    case .starting, .serving, .draining(.nothing), .stopping: return .none
    }
  }

  private mutating func loadFiles() -> Action {
    phase = .draining(.files)
    return .reload(.files)
  }

  /// QUIT.
  mutating func drainAsked() -> Action {
    switch phase {
    case .serving:
      phase = .draining(.nothing)
      return .drain
    case .reloading:
      phase = .draining(.outdated)
      return .drain
    // Nothing serves yet, so there is nothing to drain.
    case .starting: return stopAsked()
    case .draining, .stopping: return .none
    }
  }

  /// USR2. One new process starts at a time.
  mutating func replacementAsked() -> Action {
    guard replacement == .none else { return .none }
    switch phase {
    case .serving, .reloading:
      replacement = .starting
      return .replace
    case .starting, .draining, .stopping: return .none
    }
  }

  /// The new process serves.
  mutating func replacementServes() -> Action {
    replacement = .none
    return phase == .starting ? .none : drainAsked()
  }

  /// The new process did not start: this one serves on.
  mutating func replacementFailed() -> Action {
    replacement = .none
    return .none
  }

  /// TERM or INT; or the drain is complete, or its time has passed.
  mutating func stopAsked() -> Action {
    guard phase != .stopping else { return .none }
    phase = .stopping
    return .stop
  }
}

extension SupervisorState: Sendable where Successor: Sendable {}
extension SupervisorState.Action: Sendable where Successor: Sendable {}
extension SupervisorState.Action: Equatable where Successor: Equatable {}
