import Glibc
import HTTP
import Observability
import Testing
import Transport

@testable import Upstream

@Suite struct `The health of a server` {
  /// Feeds results: `.` passed, `x` failed. Returns the status after each.
  private func statuses(_ results: String, _ state: HealthState) -> String {
    var state = state
    return String(
      results.map { result in
        _ = state.take(passed: result == ".")
        return switch state.status {
        case .checking: "c"
        case .up: "u"
        case .down: "d"
        }
      })
  }

  @Test(arguments: [
    (1, 1, "..x..xx.", "uuduuddu"), (3, 1, "xx.xx.xxx.", "uuuuuuuudu"), (1, 3, "x..x...x", "ddddddud"),
    (2, 2, "xx.x..", "udddd" + "u"), (0, -5, "x.", "du"),
  ])
  func `changes after so many results in a row`(fails: Int, passes: Int, results: String, expected: String) {
    #expect(statuses(results, HealthState(.up, fails: fails, passes: passes)) == expected)
  }

  @Test func `is decided by the first result where a server must wait for it`() {
    #expect(statuses(".x", HealthState(.checking, fails: 2, passes: 3)) == "uu")
    #expect(statuses("x..", HealthState(.checking, fails: 2, passes: 2)) == "ddu")
    #expect(!HealthState(.checking, fails: 1, passes: 1).isUp)
  }

  @Test func `tells each change once, and what it was`() {
    var state = HealthState(.checking, fails: 2, passes: 2)
    let changes = [true, true, false, false, false, true, true, true].map { state.take(passed: $0) }
    #expect(changes == [.passedFirst, nil, nil, .wentDown(failures: 2), nil, nil, .cameUp(passes: 2), nil])
    state = HealthState(.checking, fails: 5, passes: 1)
    #expect(state.take(passed: false) == .wentDown(failures: 1))
  }

  @Test func `is counted by result, and a skipped check says nothing`() {
    let changes = HealthChanges()
    let counts = HealthCounts()
    let health = ServerHealth(HealthState(.up, fails: 1, passes: 1), changes, counts)
    #expect(health.take(.skipped) == nil && health.isUp && changes.count == 0)
    #expect(health.take(.failed) == .wentDown(failures: 1) && !health.isUp && changes.count == 1)
    #expect(health.take(.failed) == nil && changes.count == 1)
    #expect(health.take(.passed) == .cameUp(passes: 1) && health.isUp && changes.count == 2)
    #expect(ServerHealth.Result.allCases.map { counts.count($0) } == [1, 2, 1])
  }

  @Test func `is down if one of several checks says so`() {
    let changes = HealthChanges()
    let checks = (0..<2).map { _ in ServerHealth(HealthState(.up, fails: 1, passes: 1), changes) }
    let group = GroupHealth([checks, []], changes)
    #expect(group.isUp(0) && group.isUp(1))
    _ = checks[1].take(.failed)
    #expect(!group.isUp(0) && group.isUp(1) && group.isUp(7))
  }
}

@Suite struct `The choice among servers with health checks` {
  private func peer(backup: Bool = false) -> Balancer.Peer {
    Balancer.Peer(weight: 1, maxFails: 1, failTimeout: 10_000, maxConnections: 0, isBackup: backup, isDown: false)
  }

  @Test func `leaves out who is down, and takes the backup when no other is left`() {
    var balancer = Balancer(peers: [peer(), peer(), peer(backup: true)])
    func picks() -> Set<Int?> { Set((0..<4).map { _ in balancer.pick(now: 0, tried: TriedServers()) }) }
    balancer.setHealth(of: 0, isHealthy: false, now: 0)
    #expect(picks() == [1])
    balancer.setHealth(of: 1, isHealthy: false, now: 0)
    #expect(picks() == [2])
    balancer.setHealth(of: 2, isHealthy: false, now: 0)
    #expect(picks() == [nil])
    balancer.setHealth(of: 0, isHealthy: true, now: 0)
    balancer.setHealth(of: 9, isHealthy: true, now: 0)
    #expect(picks() == [0])
  }

  @Test func `a single server that is down gets nothing either`() {
    var balancer = Balancer(peers: [peer()])
    balancer.setHealth(of: 0, isHealthy: false, now: 0)
    #expect(balancer.pick(now: 0, tried: TriedServers()) == nil)
    balancer.setHealth(of: 0, isHealthy: true, now: 0)
    #expect(balancer.pick(now: 0, tried: TriedServers()) == 0)
  }

  /// The server can't be reached, so that an attempt that is begun fails otherwise.
  @Test func `a group hears of each change at its next attempt`() throws {
    let place = SourceLocation(file: "", line: 0, column: 0)
    let nowhere = SocketAddress.unix(path: "/nonexistent/socket")
    let server = UpstreamServerSettings(address: .address(nowhere), location: place)
    let changes = HealthChanges()
    let health = ServerHealth(HealthState(.checking, fails: 1, passes: 1), changes)
    let group = UpstreamGroup(
      ResolvedGroup(
        settings: UpstreamGroupSettings(name: "up", servers: [server], location: place),
        servers: [.init(address: nowhere, settings: server)]), health: GroupHealth([[health]], changes),
      loop: try EventLoop(index: 0), budget: ConnectionBudget(limit: 10))
    func isChosen() -> Bool {
      group.attempt().server != nil
    }
    #expect(!isChosen())
    _ = health.take(.passed)
    #expect(isChosen())
    _ = health.take(.failed)
    #expect(!isChosen())
    _ = health.take(.passed)
    #expect(isChosen())
  }
}
