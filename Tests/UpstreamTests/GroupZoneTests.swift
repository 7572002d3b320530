import HTTP
import Observability
import Testing
import Transport

@testable import Upstream

@Suite struct `The state of a group with zone` {
  private static let place = SourceLocation(file: "", line: 0, column: 0)

  private func group(_ zones: GroupZones, ports: [UInt16], weight: Int = 1, most: Int = 0, zone: String? = "z") throws
    -> UpstreamGroup
  {
    let servers = ports.map { port in
      let address = SocketAddress.unix(path: "/nonexistent/\(port)")
      var settings = UpstreamServerSettings(address: .address(address), location: Self.place)
      settings.weight = weight
      settings.maxConnections = most
      // No test is slower.
      settings.failTimeout = 86_400
      return ResolvedGroup.Server(address: address, settings: settings)
    }
    var settings = UpstreamGroupSettings(name: "up", servers: servers.map(\.settings), location: Self.place)
    settings.zone = zone
    return UpstreamGroup(
      ResolvedGroup(settings: settings, servers: servers), zones: zones, loop: try EventLoop(index: 0),
      budget: ConnectionBudget(limit: 10))
  }

  /// The server that an attempt gets; the connection to it fails.
  private func server(_ group: UpstreamGroup) -> Int? { group.attempt().server }

  @Test func `is that of all workers, and a reload with the same servers keeps it`() throws {
    let zones = GroupZones()
    let (first, second) = (try group(zones, ports: [1, 2, 3]), try group(zones, ports: [1, 2, 3]))
    // Each attempt fails, so that its server is left out by both.
    #expect(server(first) == 0 && server(second) == 1)
    let reloaded = try group(zones, ports: [1, 2, 3], weight: 4)
    #expect(server(reloaded) == 2 && server(first) == nil && server(second) == nil && server(reloaded) == nil)
    // Other servers, another zone or none: another state.
    #expect(server(try group(zones, ports: [1, 2, 4])) == 0)
    #expect(server(try group(zones, ports: [1, 2, 3], zone: "y")) == 0)
    #expect(server(try group(zones, ports: [1, 2, 3], zone: nil)) == 0)
  }

  @Test func `goes with the last group that uses it`() throws {
    let zones = GroupZones()
    do {
      let first = try group(zones, ports: [1, 2])
      #expect(server(first) == 0 && server(first) == 1 && server(first) == nil)
    }
    #expect(server(try group(zones, ports: [1, 2])) == 0)
  }
}
