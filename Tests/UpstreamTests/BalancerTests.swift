import Testing

@testable import Upstream

extension Balancer {
  /// The server for a request that brings nothing.
  mutating func pick(now: UInt64, tried: TriedServers) -> Int? {
    var selection = Selection()
    selection.tried = tried
    return pick(now: now, &selection)?.index
  }

  mutating func end(_ server: Int, _ result: AttemptResult, now: UInt64) {
    end(ServerTicket(index: server, serial: peers[server].serial), result, now: now)
  }
}

@Suite struct `The choice of an upstream server` {
  private func peer(
    weight: Int = 1, maxFails: Int = 1, failTimeout: UInt64 = 10_000, most: Int = 0, backup: Bool = false,
    down: Bool = false
  ) -> Balancer.Peer {
    Balancer.Peer(
      weight: weight, maxFails: maxFails, failTimeout: failTimeout, maxConnections: most, isBackup: backup, isDown: down
    )
  }

  /// Picks and ends so often, all well.
  private func picks(_ count: Int, _ balancer: inout Balancer, now: UInt64 = 0) -> [Int?] {
    (0..<count).map { _ in
      let picked = balancer.pick(now: now, tried: TriedServers())
      if let picked { balancer.end(picked, .success, now: now) }
      return picked
    }
  }

  @Test func `goes by weight, smoothly`() {
    var balancer = Balancer(peers: [peer(weight: 5), peer(), peer()])
    // nginx's own example of its smooth weighted round robin.
    #expect(picks(7, &balancer) == [0, 0, 1, 0, 2, 0, 0])
    #expect(picks(7, &balancer) == [0, 0, 1, 0, 2, 0, 0])
  }

  @Test func `leaves out who has failed too often, for fail_timeout, then tries once`() {
    var balancer = Balancer(peers: [peer(maxFails: 2), peer()])
    func fail(_ server: Int, at now: UInt64) {
      var others = TriedServers()
      others.insert(1 - server)
      #expect(balancer.pick(now: now, tried: others) == server)
      balancer.end(server, .failure, now: now)
    }
    fail(0, at: 0)
    #expect(picks(4, &balancer, now: 0).contains(0))
    fail(0, at: 100)
    #expect(picks(6, &balancer, now: 200) == Array(repeating: 1, count: 6))
    #expect(picks(6, &balancer, now: 10_100) == Array(repeating: 1, count: 6))
    // It is tried again, and forgiven when that went well.
    #expect(picks(6, &balancer, now: 10_101).contains(0))
    #expect(picks(6, &balancer, now: 10_200).contains(0))
  }

  @Test func `a server that fails its trial is left out again`() {
    var balancer = Balancer(peers: [peer(), peer()])
    var others = TriedServers()
    others.insert(1)
    for now in [UInt64(0), 10_001] {
      #expect(balancer.pick(now: now, tried: others) == 0)
      balancer.end(0, .failure, now: now)
      #expect(balancer.pick(now: now + 10_000, tried: others) == nil)
    }
  }

  @Test func `max_fails 0 leaves nobody out`() {
    var balancer = Balancer(peers: [peer(maxFails: 0), peer(maxFails: 0)])
    for _ in 0..<10 {
      if let picked = balancer.pick(now: 0, tried: TriedServers()) { balancer.end(picked, .failure, now: 0) }
    }
    #expect(Set(picks(4, &balancer)) == [0, 1])
  }

  @Test func `a single server is never taken for failed`() {
    var balancer = Balancer(peers: [peer()])
    for _ in 0..<5 {
      #expect(balancer.pick(now: 0, tried: TriedServers()) == 0)
      balancer.end(0, .failure, now: 0)
    }
    var tried = TriedServers()
    tried.insert(0)
    #expect(balancer.pick(now: 0, tried: tried) == nil)
  }

  @Test func `a backup serves only when no other can`() {
    var balancer = Balancer(peers: [peer(), peer(backup: true), peer(down: true)])
    #expect(picks(3, &balancer) == [0, 0, 0])
    #expect(balancer.pick(now: 0, tried: TriedServers()) == 0)
    balancer.end(0, .failure, now: 0)
    #expect(picks(2, &balancer, now: 1) == [1, 1])
    var tried = TriedServers()
    tried.insert(0)
    tried.insert(1)
    #expect(balancer.pick(now: 1, tried: tried) == nil)
  }

  @Test func `max_conns bounds what is under way, and an end makes room`() {
    var balancer = Balancer(peers: [peer(most: 1), peer(most: 1)])
    let first = balancer.pick(now: 0, tried: TriedServers())
    #expect(Set([first, balancer.pick(now: 0, tried: TriedServers())]) == [0, 1])
    #expect(balancer.pick(now: 0, tried: TriedServers()) == nil)
    balancer.end(0, .unjudged, now: 0)
    #expect(balancer.pick(now: 0, tried: TriedServers()) == 0)
  }

  @Test func `none is tried twice, be there ever so many`() {
    var balancer = Balancer(peers: (0..<130).map { _ in peer() })
    var tried = TriedServers()
    while let picked = balancer.pick(now: 0, tried: tried) {
      #expect(!tried.contains(picked))
      tried.insert(picked)
      tried.insert(picked)
    }
    #expect(tried.count == 130)
  }
}
