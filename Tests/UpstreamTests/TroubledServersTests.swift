import Testing

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
}
