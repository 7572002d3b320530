import Testing
import Transport

@testable import Upstream

@Suite struct `Servers that are changed while they serve` {
  private static func address(_ last: UInt32) -> SocketAddress { .ipv4(address: 0x0A00_0000 + last, port: 80) }

  private static func plan(_ weights: [Int]) -> Balancer.Plan {
    Balancer.Plan(
      peers: weights.enumerated().map { index, weight in
        Balancer.Peer(
          weight: weight, maxFails: 1, failTimeout: 10_000, maxConnections: 0, isBackup: false, isDown: false,
          address: address(UInt32(index)))
      })
  }

  private func picks(_ balancer: inout Balancer, _ count: Int) -> [Int] {
    var all: [Int] = []
    for _ in 0..<count {
      var selection = Selection()
      guard let ticket = balancer.pick(now: 0, &selection) else { continue }
      balancer.end(ticket, .success, now: 0)
      all.append(ticket.index)
    }
    return all
  }

  private static let down: ServerPatch = {
    var patch = ServerPatch()
    patch.isDown = true
    return patch
  }()

  @Test func `the next pick knows of a change, and a second one leaves the first`() {
    var balancer = Balancer(Self.plan([1, 1]))
    let serial = balancer.peers[0].serial
    balancer.patch(serial: serial, Self.down)
    #expect(picks(&balancer, 4) == [1, 1, 1, 1])
    var weight = ServerPatch()
    weight.weight = 3
    balancer.patch(serial: serial, weight)
    #expect(balancer.members(now: 0)[0].isDown && balancer.members(now: 0)[0].weight == 3)
    #expect(balancer.members(now: 0).map(\.isChanged) == [true, false])
    weight.isDown = false
    balancer.patch(serial: serial, weight)
    #expect(picks(&balancer, 8).count { $0 == 0 } == 6)
    balancer.patch(serial: 99, Self.down)
    #expect(balancer.members(now: 0).allSatisfy { !$0.isDown })
  }

  @Test func `a change lasts while the line says the same, also among other servers`() {
    var balancer = Balancer(Self.plan([1, 1]))
    balancer.patch(serial: balancer.peers[0].serial, Self.down)
    balancer.replace(Self.plan([1, 1]))
    #expect(balancer.members(now: 0).map(\.isDown) == [true, false])
    balancer.replace(Self.plan([1, 5, 1]))
    #expect(balancer.members(now: 0).map(\.isDown) == [true, false, false])
    balancer.replace(Self.plan([2, 5, 1]))
    #expect(balancer.members(now: 0).map(\.isDown) == [false, false, false])
    // Forgotten is forgotten.
    balancer.replace(Self.plan([1, 1]))
    #expect(balancer.members(now: 0).map(\.isDown) == [false, false])
  }

  @Test func `a state of other addresses takes over what was changed of those that it has too`() {
    var former = Balancer(Self.plan([1, 1, 4]))
    former.patch(serial: former.peers[0].serial, Self.down)
    former.patch(serial: former.peers[2].serial, Self.down)
    var balancer = Balancer(Self.plan([1, 1, 1]))
    balancer.inherit(former)
    // The line of the third says something else.
    #expect(balancer.members(now: 0).map(\.isDown) == [true, false, false])
  }

  @Test func `attempts in progress end at the server that they began at`() {
    var balancer = Balancer(Self.plan([1]))
    var selection = Selection()
    let ticket = balancer.pick(now: 0, &selection)
    balancer.patch(serial: balancer.peers[0].serial, Self.down)
    #expect(balancer.members(now: 0)[0].active == 1)
    if let ticket { balancer.end(ticket, .success, now: 0) }
    #expect(balancer.members(now: 0)[0].active == 0 && balancer.members(now: 0)[0].isDown)
  }
}
