import Observability
import Testing
import Transport

@testable import Upstream

@Suite struct `Servers in trouble` {
  @Test func `a server is in trouble from its failure to its recovery, and a number of no server never`() {
    var servers = TroubledServers(servers: 2)
    servers.insert(1)
    servers.insert(1)
    servers.insert(7)
    #expect(servers.contains(1) && !servers.contains(0) && !servers.contains(7) && !servers.isEmpty)
    servers.remove(0)
    servers.remove(1)
    servers.remove(1)
    #expect(servers.isEmpty)
  }

  /// The groups of a new generation have seen no failure.
  @Test func `a group takes over which servers the log says are down`() throws {
    let place = SourceLocation(file: "", line: 0, column: 0)
    let addresses = [SocketAddress.unix(path: "/a"), .unix(path: "/b")]
    let servers = addresses.map { UpstreamServerSettings(address: .address($0), location: place) }
    let group = UpstreamGroup(
      ResolvedGroup(
        settings: UpstreamGroupSettings(name: "up", servers: servers, location: place),
        servers: zip(addresses, servers).map { .init(address: $0, settings: $1) }),
      loop: try EventLoop(index: 0), budget: ConnectionBudget(limit: 10))
    let faults = FaultLog()
    for (subject, weight) in [(0, FaultLog.Weight.attempt), (1, .unreachable)] {
      _ = faults.note("broken", about: group.description(of: subject), weight, .error, ErrorLog([]), now: 5)
    }
    group.takeOver(down: faults.down)
    #expect(!group.isTroubled(0) && group.isTroubled(1) && group.hasFailures)
  }
}
