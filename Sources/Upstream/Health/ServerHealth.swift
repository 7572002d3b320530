import Synchronization

/// Counts the changes of health of all servers, so that a group notices one by a single load.
public final class HealthChanges: Sendable {
  private let changes = Atomic<UInt64>(0)

  public init() {}

  var count: UInt64 { changes.load(ordering: .acquiring) }
  fileprivate func add() { _ = changes.wrappingAdd(1, ordering: .acquiringAndReleasing) }
}

/// What one health check knows of one server. The worker that checks writes it, and the groups of all workers read it. A
/// reload that leaves the check and the server's address as they are keeps the object.
public final class ServerHealth: Sendable {
  /// How one check ended.
  public enum Result: String, CaseIterable, Sendable {
    case passed, failed
    /// This process lacked a resource, which says nothing about the server.
    case skipped
  }

  private let state: Mutex<HealthState>
  private let isUpNow: Atomic<Bool>
  fileprivate let counts: HealthCounts
  private let changes: HealthChanges

  public init(_ state: HealthState, _ changes: HealthChanges, _ counts: HealthCounts = HealthCounts()) {
    self.state = Mutex(state)
    self.isUpNow = Atomic(state.isUp)
    self.changes = changes
    self.counts = counts
  }

  /// Whether the server may get requests, as far as this check goes.
  public var isUp: Bool { isUpNow.load(ordering: .acquiring) }

  /// Whether the last line of the error log about the server, as far as this check goes, says that it is down.
  public var isToldDown: Bool { state.withLock { $0.isToldDown } }

  /// Takes the result of a check; returns the change that it makes.
  public func take(_ result: Result) -> HealthState.Change? {
    counts.add(result)
    if result == .skipped { return nil }
    let change = state.withLock { $0.take(passed: result == .passed) }
    if let change {
      if case .wentDown = change {
        counts.addUnhealthy()
        isUpNow.store(false, ordering: .releasing)
      } else {
        isUpNow.store(true, ordering: .releasing)
      }
      // After the store: a group that sees the count sees the health too.
      changes.add()
    }
    return change
  }
}

/// How many checks of a server ended how. All checks of the server share it, also those that a reload changes, because a
/// counter must not fall.
public final class HealthCounts: Sendable {
  private let passed = Atomic<UInt64>(0), failed = Atomic<UInt64>(0), skipped = Atomic<UInt64>(0)
  private let becameUnhealthy = Atomic<UInt64>(0), hasPassedLast = Atomic<Bool>(false)

  public init() {}

  public func count(_ result: ServerHealth.Result) -> UInt64 {
    switch result {
    case .passed: passed.load(ordering: .relaxed)
    case .failed: failed.load(ordering: .relaxed)
    case .skipped: skipped.load(ordering: .relaxed)
    }
  }

  /// How often the server went down by a check.
  public var unhealthy: UInt64 { becameUnhealthy.load(ordering: .relaxed) }
  /// How the last check ended; nil before the first.
  public var lastPassed: Bool? {
    count(.passed) == 0 && count(.failed) == 0 ? nil : hasPassedLast.load(ordering: .relaxed)
  }

  fileprivate func addUnhealthy() { becameUnhealthy.wrappingAdd(1, ordering: .relaxed) }

  fileprivate func add(_ result: ServerHealth.Result) {
    if result != .skipped { hasPassedLast.store(result == .passed, ordering: .relaxed) }
    switch result {
    case .passed: passed.wrappingAdd(1, ordering: .relaxed)
    case .failed: failed.wrappingAdd(1, ordering: .relaxed)
    case .skipped: skipped.wrappingAdd(1, ordering: .relaxed)
    }
  }
}

/// The health of a group's servers by all checks of the group. A server is up if every check says so.
public final class GroupHealth: Sendable {
  /// By index in the group's servers; no entries for a server that no check concerns.
  private let servers: [[ServerHealth]]
  private let changes: HealthChanges

  public init(_ servers: [[ServerHealth]], _ changes: HealthChanges) {
    self.servers = servers
    self.changes = changes
  }

  var changeCount: UInt64 { changes.count }

  /// nil for a server that no check concerns.
  func counts(_ server: Int) -> HealthCounts? {
    servers.indices.contains(server) ? servers[server].first?.counts : nil
  }

  public func isUp(_ server: Int) -> Bool {
    !servers.indices.contains(server) || servers[server].allSatisfy(\.isUp)
  }
}
