import Testing
import Transport

@testable import Upstream

/// Peers, keys and sequences for tests of the methods.
private enum Given {
  static func peer(
    _ weight: Int = 1, maxFails: Int = 1, most: Int = 0, backup: Bool = false, down: Bool = false,
    slowStart: UInt64 = 0, draining: Bool = false, named: String = "", at port: UInt16? = nil
  ) -> Balancer.Peer {
    Balancer.Peer(
      weight: weight, maxFails: maxFails, failTimeout: 10_000, maxConnections: most, isBackup: backup, isDown: down,
      slowStart: slowStart, isDraining: draining, identifier: Array(named.utf8),
      address: port.map { .ipv4(address: 1, port: $0) })
  }

  static func selection(_ key: String) -> Selection {
    var selection = Selection()
    if let digest = Array(key.utf8).withUnsafeBytes({ KeyDigest($0) }) { selection.key = .digest(digest) }
    return selection
  }

  static func bound(_ name: String) -> Selection {
    var selection = Selection()
    selection.identifier = Array(name.utf8)
    return selection
  }
}

@Suite struct `The hash of a key` {
  @Test func `is the CRC-32 that everybody has`() {
    #expect(Checksum.of("123456789".utf8) == 0xCBF4_3926)
    #expect(Checksum.of([]) == 0)
  }

  @Test func `after a number is that of the text with the number before it, however long the key`() throws {
    for count in [1, 2, 3, 7, 8, 9, 63, 64, 255, 4096, 65_537] {
      let key = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
      let digest = try #require(key.withUnsafeBytes { KeyDigest($0) })
      #expect(digest.checksum == Checksum.of(key))
      for number in [0, 1, 9, 10, 20, 4711] {
        #expect(digest.checksum(after: number) == Checksum.of(Array("\(number)".utf8) + key), "\(count) \(number)")
      }
    }
    #expect([UInt8]().withUnsafeBytes { KeyDigest($0) } == nil)
  }
}

@Suite struct `A ring of servers` {
  @Test func `moves few keys when a server comes`() {
    let four = (1...4).map { (spelling: "10.0.0.\($0):80", weight: 1) }
    let (small, large) = (HashRing(four), HashRing(four + [("10.0.0.5:80", 1)]))
    func server(_ ring: HashRing, _ count: Int, _ key: Int) -> Int? {
      let place = ring.place(of: Checksum.of("key\(key)".utf8))
      return (0..<count).first { ring.isPoint(at: place, of: $0) }
    }
    let moved = (0..<5000).filter { server(small, 4, $0) != server(large, 5, $0) }
    #expect((600...1500).contains(moved.count))
    #expect(moved.allSatisfy { server(large, 5, $0) == 4 })
  }

  @Test func `has no server for what is not in it, and no more points than its bound`() {
    let ring = HashRing([("a", Int.max), ("b", 7)], heaviest: 30)
    #expect((0..<10_000).allSatisfy { !ring.isPoint(at: $0, of: 1) })
    #expect(ring.isPoint(at: 0, of: 0) && !ring.isPoint(at: 0, of: 2) && !ring.isPoint(at: 0, of: -1))
    let none = HashRing([])
    #expect(none.isEmpty && none.place(of: 7) == 0 && !none.isPoint(at: 0, of: 0))
  }
}

@Suite struct `The methods of choosing a server` {
  private func pick(_ balancer: inout Balancer, _ selection: Selection, now: UInt64 = 0) -> Int? {
    var selection = selection
    return balancer.pick(now: now, &selection)?.index
  }

  /// Every server once, and then nobody: whatever the method.
  @Test(
    arguments: [
      .hash, .consistentHash, .addressHash, .leastConnections, .leastTime(.firstByte, countsInFlight: true), .random,
      .randomTwo(nil), .randomTwo(.lastByte), .roundRobin, .leastTime(.lastByte, countsInFlight: false),
    ] as [BalanceMethod])
  func `try each usable server once`(method: BalanceMethod) {
    for count in [2, 3, 130] {
      let peers = (0..<count).map { Given.peer($0 % 3 + 1, down: $0 == 1, draining: $0 == 2) }
      let ring = HashRing(peers.enumerated().map { ("s\($0):1", $1.weight) })
      for key in ["", "a", "b"] {
        var balancer = Balancer(peers: peers, method: method, ring: ring, seed: 7)
        var selection = Given.selection(key)
        if method == .addressHash { selection.key = .address(AddressKey(ipv4: 0x0A01_0203)) }
        var seen: Set<Int> = []
        while let ticket = balancer.pick(now: 0, &selection) {
          #expect(seen.insert(ticket.index).inserted)
          selection.tried.insert(ticket.index)
        }
        #expect(seen == Set((0..<count).filter { $0 != 1 && $0 != 2 }), "\(method) \(count)")
      }
    }
  }

  @Test(arguments: [.hash, .consistentHash] as [BalanceMethod])
  func `a key has one server, and keys go by weight`(method: BalanceMethod) {
    let peers = [Given.peer(5), Given.peer(), Given.peer(2)]
    let ring = HashRing(peers.enumerated().map { ("10.0.0.\($0):80", $1.weight) })
    var balancer = Balancer(peers: peers, method: method, ring: ring)
    var counts = [0, 0, 0]
    for key in 0..<4000 {
      guard let first = pick(&balancer, Given.selection("key\(key)")) else { Issue.record("no server"); return }
      #expect(pick(&balancer, Given.selection("key\(key)")) == first)
      counts[first] += 1
    }
    for (count, weight) in zip(counts, [5, 1, 2]) { #expect(abs(count - 500 * weight) < 250) }
  }

  @Test func `a server that fails gives its keys to others, and gets them back`() {
    var balancer = Balancer(peers: [Given.peer(), Given.peer(), Given.peer()], method: .hash)
    let before = (0..<100).map { pick(&balancer, Given.selection("\($0)")) }
    balancer.end(1, .failure, now: 0)
    let meanwhile = (0..<100).map { pick(&balancer, Given.selection("\($0)"), now: 5) }
    #expect(!meanwhile.contains(1) && zip(before, meanwhile).allSatisfy { $0 == 1 || $0 == $1 })
    // The first key of the server tries it, and its success brings the others back.
    let after = (0..<100).map { key in
      let server = pick(&balancer, Given.selection("\(key)"), now: 10_001)
      if let server { balancer.end(server, .success, now: 10_001) }
      return server
    }
    #expect(after == before)
  }

  @Test func `ip_hash takes three octets of IPv4 and all of IPv6`() {
    var balancer = Balancer(peers: (0..<7).map { _ in Given.peer() }, method: .addressHash)
    func server(_ address: AddressKey) -> Int? {
      var selection = Selection()
      selection.key = .address(address)
      return balancer.pick(now: 0, &selection)?.index
    }
    #expect(
      (0..<256).allSatisfy { server(AddressKey(ipv4: 0x0A01_0200 | $0)) == server(AddressKey(ipv4: 0x0A01_0200)) })
    #expect(Set((0..<200).map { server(AddressKey(ipv4: $0 << 8)) }).count == 7)
    #expect(Set((0..<200).map { server(AddressKey(high: 0x2001_0DB8 << 32, low: $0)) }).count == 7)
  }

  @Test func `least_conn takes the one with the fewest for its weight, and turns among equals`() {
    var balancer = Balancer(
      peers: [Given.peer(2), Given.peer(), Given.peer(1, backup: true)], method: .leastConnections)
    // Nobody ends: two to the first for each one to the second. Where both have as much to do, they take turns.
    #expect((0..<6).map { _ in pick(&balancer, Selection()) } == [0, 1, 0, 1, 0, 0])
    balancer.end(1, .success, now: 0)
    #expect(pick(&balancer, Selection()) == 1)
    for server in [0, 1] { balancer.setHealth(of: server, isHealthy: false, now: 0) }
    #expect(pick(&balancer, Selection()) == 2)
  }

  private func serve(_ balancer: inout Balancer, after header: UInt64, _ whole: UInt64, now: UInt64 = 0) -> Int? {
    var selection = Selection()
    guard let ticket = balancer.pick(now: now, &selection) else { return nil }
    balancer.end(ticket, .success, AttemptTimes(header: header, whole: whole), now: now + whole)
    return ticket.index
  }

  @Test(arguments: [BalanceMethod.ResponseTime.firstByte, .lastByte])
  func `least_time takes the faster one`(time: BalanceMethod.ResponseTime) {
    var balancer = Balancer(
      peers: [Given.peer(), Given.peer()], method: .leastTime(time, countsInFlight: false))
    // Server 0 is slow to begin, and server 1 to end.
    func times(_ server: Int) -> (UInt64, UInt64) { server == 0 ? (900, 950) : (10, 2000) }
    for now in 0..<2 {
      var selection = Selection()
      selection.tried.insert(now)
      guard let ticket = balancer.pick(now: 1, &selection) else { Issue.record("no server"); return }
      let (header, whole) = times(ticket.index)
      balancer.end(ticket, .success, AttemptTimes(header: header, whole: whole), now: 2)
    }
    #expect(pick(&balancer, Selection(), now: 3) == (time == .firstByte ? 1 : 0))
  }

  @Test func `least_time prefers no server that only fails, and with inflight none that doesn't answer`() {
    var balancer = Balancer(
      peers: [Given.peer(maxFails: 0), Given.peer(maxFails: 0)], method: .leastTime(.firstByte, countsInFlight: true))
    var selection = Selection()
    // One request hangs at a server; ten seconds later everybody goes to the other.
    guard let hanging = balancer.pick(now: 20_000, &selection) else { Issue.record("no server"); return }
    let other = 1 - hanging.index
    for now in (0..<20).map({ 30_000 + UInt64($0) * 10 }) {
      #expect(serve(&balancer, after: 5, 9, now: now) == other)
    }
    balancer.end(hanging, .failure, AttemptTimes(header: nil, whole: 11_000), now: 31_000)
    #expect(balancer.peers.allSatisfy { $0.times.inFlight == 0 && $0.active == 0 })
    #expect(balancer.peers[hanging.index].times != balancer.peers[other].times)
  }

  /// `connect` and `first_byte`: what has come ends the flight, however long the session goes on.
  @Test(arguments: [BalanceMethod.ResponseTime.connect, .firstByte])
  func `a session whose time has come is in flight no more`(time: BalanceMethod.ResponseTime) {
    var balancer = Balancer(
      peers: [Given.peer(), Given.peer()], method: .leastTime(time, countsInFlight: true))
    var selection = Selection()
    guard let ticket = balancer.pick(now: 1000, &selection) else { Issue.record("no server"); return }
    balancer.headDidCome(ticket, after: 30, now: 1030)
    #expect(balancer.peers[ticket.index].times.inFlight == 0 && balancer.peers[ticket.index].active == 1)
    var times = AttemptTimes(header: 30, whole: 90_000)
    times.hasToldHead = true
    balancer.end(ticket, .success, times, now: 91_000)
    #expect(balancer.peers[ticket.index].times.inFlight == 0 && balancer.peers[ticket.index].active == 0)
    #expect(balancer.peers[ticket.index].times.estimate(time, active: 0, isIdleFor: 0) == 40)
  }

  @Test func `random goes by weight, and two drops the busier one`() {
    var balancer = Balancer(peers: [Given.peer(6), Given.peer(2), Given.peer(1)], method: .random, seed: 42)
    var counts = [0, 0, 0]
    for _ in 0..<9000 {
      if let server = pick(&balancer, Selection()) {
        counts[server] += 1
        balancer.end(server, .success, now: 0)
      }
    }
    for (count, weight) in zip(counts, [6, 2, 1]) { #expect(abs(count - 1000 * weight) < 250) }
    var two = Balancer(peers: (0..<8).map { _ in Given.peer() }, method: .randomTwo(nil), seed: 42)
    for _ in 0..<800 { _ = pick(&two, Selection()) }
    #expect(two.peers.allSatisfy { (80...120).contains($0.active) })
  }

  @Test func `huge and absurd weights do no harm`() {
    for method: BalanceMethod in [
      .roundRobin, .hash, .leastConnections, .random, .leastTime(.firstByte, countsInFlight: true),
    ] {
      var balancer = Balancer(
        peers: [Given.peer(.max, slowStart: .max), Given.peer(0), Given.peer(.min)], method: method)
      for now in [UInt64(0), 1, .max - 1, .max, 0] {
        for _ in 0..<50 {
          var selection = Given.selection("k")
          guard let ticket = balancer.pick(now: now, &selection) else { break }
          let times = AttemptTimes(header: .max, whole: .max)
          balancer.end(ticket, .success, times, now: now &+ 7)
          balancer.end(ticket, .failure, times, now: now &- 7)
        }
        balancer.setHealth(of: 0, isHealthy: now % 2 == 0, now: now)
      }
    }
  }

  @Test func `hundreds of servers share the requests`() {
    var balancer = Balancer(peers: (0..<300).map { _ in Given.peer() }, method: .leastConnections)
    for _ in 0..<600 { _ = pick(&balancer, Selection()) }
    #expect(balancer.peers.allSatisfy { $0.active == 2 })
  }
}

@Suite struct `A request that is bound to a server` {
  private func peers(draining: Bool = false, down: Bool = false) -> [Balancer.Peer] {
    [Given.peer(named: "a"), Given.peer(down: down, draining: draining, named: "b"), Given.peer(named: "c")]
  }

  @Test(
    arguments: [
      .roundRobin, .hash, .consistentHash, .leastConnections, .random, .randomTwo(nil),
      .leastTime(.firstByte, countsInFlight: false),
    ] as [BalanceMethod])
  func `goes to it, though it drains, but not if it is down, full, failed or tried`(method: BalanceMethod) {
    let ring = HashRing([("a", 1), ("b", 1), ("c", 1)])
    func pick(_ peers: [Balancer.Peer], _ change: (inout Balancer, inout Selection) -> Void = { _, _ in }) -> Int? {
      var balancer = Balancer(peers: peers, method: method, ring: ring, seed: 3)
      var selection = Given.bound("b")
      if let digest = Array("k".utf8).withUnsafeBytes({ KeyDigest($0) }) { selection.key = .digest(digest) }
      change(&balancer, &selection)
      return balancer.pick(now: 5, &selection)?.index
    }
    #expect(pick(peers()) == 1)
    #expect(pick(peers(draining: true)) == 1)
    #expect(pick(peers(draining: true)) { $1.identifier = Array("a".utf8) } == 0)
    for _ in 0..<5 { #expect(pick(peers(draining: true)) { $1.identifier = nil } != 1) }
    #expect(pick(peers(down: true)) != 1)
    #expect(pick(peers()) { balancer, _ in balancer.end(1, .failure, now: 5) } != 1)
    #expect(pick(peers()) { balancer, _ in balancer.setHealth(of: 1, isHealthy: false, now: 5) } != 1)
    #expect(pick(peers()) { $1.tried.insert(1) } != 1)
    for name in ["", "x", String(repeating: "b", count: 70_000)] {
      #expect(pick(peers()) { $1.identifier = Array(name.utf8) } != nil)
    }
  }

  @Test func `does not push its server back further than one round of the others`() {
    var balancer = Balancer(peers: peers())
    for _ in 0..<1000 {
      var selection = Given.bound("b")
      #expect(balancer.pick(now: 0, &selection)?.index == 1)
    }
    #expect(balancer.peers[1].currentWeight >= -4)
    var unbound: [Int?] = []
    for _ in 0..<6 {
      var selection = Selection()
      unbound.append(balancer.pick(now: 0, &selection)?.index)
    }
    #expect(unbound.contains(1))
  }
}

@Suite struct `A slow start` {
  private func share(_ balancer: inout Balancer, at now: UInt64) -> Int {
    (0..<100).count { _ in
      var selection = Selection()
      let ticket = balancer.pick(now: now, &selection)
      if let ticket { balancer.end(ticket, .unjudged, now: now) }
      return ticket?.index == 0
    }
  }

  @Test func `gives a server that a check finds up again its weight by and by`() {
    var balancer = Balancer(peers: [Given.peer(slowStart: 10_000), Given.peer()])
    #expect(share(&balancer, at: 0) == 50)
    balancer.setHealth(of: 0, isHealthy: false, now: 1000)
    #expect(share(&balancer, at: 1000) == 0)
    balancer.setHealth(of: 0, isHealthy: true, now: 2000)
    #expect(share(&balancer, at: 2000) <= 1)
    #expect((15...25).contains(share(&balancer, at: 4500)))
    #expect((28...38).contains(share(&balancer, at: 7000)))
    #expect((48...52).contains(share(&balancer, at: 12_000)))
  }

  @Test func `begins too when a server answers after fail_timeout, and least_conn heeds it`() {
    var balancer = Balancer(peers: [Given.peer(slowStart: 10_000), Given.peer()], method: .leastConnections)
    balancer.end(0, .failure, now: 0)
    #expect(share(&balancer, at: 5) == 0)
    var selection = Selection()
    selection.tried.insert(1)
    guard let trial = balancer.pick(now: 10_001, &selection) else { Issue.record("no trial"); return }
    balancer.end(trial, .success, now: 10_002)
    #expect(share(&balancer, at: 10_003) < 5)
    #expect((28...38).contains(share(&balancer, at: 15_002)))
  }
}

@Suite struct `Servers that are replaced as a whole` {
  @Test func `what is known of a server stays with its address, and its attempts end at it`() {
    var balancer = Balancer(peers: [Given.peer(at: 1), Given.peer(at: 2), Given.peer(at: 3)])
    let tickets = (0..<3).compactMap { _ in
      var selection = Selection()
      return balancer.pick(now: 0, &selection)
    }
    #expect(tickets.map(\.index) == [0, 1, 2])
    balancer.end(tickets[1], .failure, now: 0)
    // The first leaves, the others move up, and two new ones come.
    balancer.replace(
      Balancer.Plan(peers: [Given.peer(at: 3), Given.peer(7, at: 2), Given.peer(at: 4), Given.peer(at: 3)]))
    #expect(balancer.peers.map(\.active) == [1, 0, 0, 0])
    #expect(balancer.peers.map(\.fails) == [0, 1, 0, 0] && balancer.peers[1].terms.weight == 7)
    balancer.end(tickets[0], .failure, now: 1)
    #expect(balancer.peers.map(\.fails) == [0, 1, 0, 0] && balancer.peers.map(\.active) == [1, 0, 0, 0])
    balancer.end(tickets[2], .success, now: 1)
    #expect(balancer.peers.map(\.active) == [0, 0, 0, 0])
    // To none, and back: nothing is known any more, and nothing traps.
    balancer.replace(Balancer.Plan(peers: [], method: .hash))
    var selection = Given.selection("k")
    #expect(balancer.pick(now: 0, &selection) == nil && balancer.pick(again: 0, now: 0) == nil)
    balancer.replace(Balancer.Plan(peers: [Given.peer(at: 2)]))
    balancer.end(tickets[1], .failure, now: 2)
    #expect(balancer.peers.map(\.fails) == [0])
  }

  @Test func `the same servers again change nothing`() {
    let plan = Balancer.Plan(peers: [Given.peer(5), Given.peer()])
    var balancer = Balancer(plan)
    var selection = Selection()
    _ = balancer.pick(now: 0, &selection)
    balancer.replace(plan)
    #expect(balancer.peers.map(\.active) == [1, 0])
  }
}
