/// How a server stands by the results of one health check: a pure state machine, without a clock or a socket.
///
///     checking ──pass──► up ──`fails` failures in a row──► down ──`passes` passes in a row──► up
///        └─────fail────────────────────────────────────────►
///
/// Source: `fails`, `passes` and `mandatory` of nginx's `health_check`.
public struct HealthState: Sendable, Equatable {
  public enum Status: String, Sendable, Hashable {
    /// No check has ended yet, and the server gets no requests before (`mandatory`).
    case checking
    case up, down
  }

  /// A change that the error log gets.
  public enum Change: Sendable, Equatable {
    /// After this many failures in a row.
    case wentDown(failures: Int)
    /// After this many passes in a row.
    case cameUp(passes: Int)
    /// The first check of a server that had to wait for it has passed.
    case passedFirst
  }

  /// What a check begins with, and where the check before it left the server.
  public enum Origin: Sendable, Equatable {
    case fresh
    /// A reload changed the check by which the server was down, so the error log still says that it is.
    case afterDown
  }

  public private(set) var status: Status
  /// Results in a row that speak against `status`.
  private(set) var contrary = 0
  /// At least 1.
  private let fails: Int
  private let passes: Int
  private let origin: Origin

  public init(_ status: Status, fails: Int, passes: Int, _ origin: Origin = .fresh) {
    self.status = status
    self.origin = origin
    self.fails = max(1, fails)
    self.passes = max(1, passes)
  }

  /// Whether the server may get requests.
  public var isUp: Bool { status == .up }

  /// Whether the last line of the error log about the server says that it is down.
  public var isToldDown: Bool { status == .down || status == .checking && origin == .afterDown }

  /// Takes the result of one check; returns the change that it makes.
  public mutating func take(passed: Bool) -> Change? {
    switch (status, passed) {
    case (.checking, true):
      status = .up
      return origin == .afterDown ? .cameUp(passes: 1) : .passedFirst
    case (.checking, false):
      status = .down
      return .wentDown(failures: 1)
    case (.up, true), (.down, false):
      contrary = 0
      return nil
    case (.up, false):
      contrary += 1
      guard contrary >= fails else { return nil }
      let failures = contrary
      status = .down
      contrary = 0
      return .wentDown(failures: failures)
    case (.down, true):
      contrary += 1
      guard contrary >= passes else { return nil }
      let passes = contrary
      status = .up
      contrary = 0
      return .cameUp(passes: passes)
    }
  }
}
