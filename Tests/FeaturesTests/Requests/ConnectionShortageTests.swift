@testable import Features
@testable import Forward
import Glibc
import Testing
@testable import Traffic
import Transport

@Suite struct `Want of connections` {
  @Test(arguments: [(0, 0), (1, 1), (7, 1), (16, 2), (100, 12), (256, 32), (100_000, 32)])
  func `an eighth of what idles is ended at once, at least one and at most 32`(idle: Int, ended: Int) {
    #expect(EvictionOrder.quota(of: .idle, idle) == ended)
    #expect(EvictionOrder.quota(of: .verified, idle) == ended)
  }

  @Test func `unfinished handshakes are ended in larger numbers`() {
    #expect(EvictionOrder.quota(of: .opening, 100_000) == 256)
  }

  private static func order(_ candidates: [(EvictionOrder.Rank, UInt64)], limit: Int = 1000) -> EvictionOrder {
    EvictionOrder(
      candidates.map { EvictionOrder.Candidate(rank: $0.0, since: $0.1) }, limit: limit, now: 10_000)
  }

  @Test
  func `who waits longest goes first, and the ranks begin with unfinished handshakes and end with verified clients`() {
    let order = Self.order([(.verified, 1), (.idle, 9000), (.opening, 5000), (.idle, 2), (.opening, 4000), (.head, 3)])
    #expect(EvictionOrder.Rank.allCases.map { order.indexes(of: $0) } == [[4, 2], [], [3, 1], [5], [0]])
  }

  @Test func `a handshake that may still go on is not ended, and neither is a head`() {
    let order = Self.order([(.opening, 9701), (.opening, 9700), (.head, 9001), (.head, 9000), (.opening, 20_000)])
    #expect(order.indexes(of: .opening) == [1])
    #expect(order.indexes(of: .head) == [3])
  }

  @Test func `who waits for a turn goes after a second, after handshakes that don't go on and before idle clients`() {
    let order = Self.order([(.idle, 1), (.waiting, 9001), (.waiting, 9000), (.opening, 9700), (.waiting, 8000)])
    #expect(EvictionOrder.Rank.allCases.map { order.indexes(of: $0) } == [[3], [4, 2], [0], [], []])
    let waiting = Array(repeating: (EvictionOrder.Rank.waiting, UInt64(9999)), count: 13)
    #expect(Self.order([(.verified, 1)] + waiting, limit: 100).indexes(of: .verified) == [])
  }

  @Test func `a client that waits for its turn is no handshake that does not go on`() throws {
    let rig = try Rig("server { listen 127.0.0.1:1; return 204; }")
    // 16 connections: eight handshakes, and four of one address.
    let clients = try (1...5).map { try rig.connect(number: UInt64($0)) }
    defer {
      for client in clients {
        client.session.close()
        close(client.peer)
      }
    }
    #expect(clients.map { rig.worker.handshakes.mayBegin($0.session) } == [true, true, true, true, false])
    #expect(clients.map(\.session.evictionRank) == [.opening, .opening, .opening, .opening, .waiting])
  }

  /// It is left in the socket until more of them have come, and would keep the place for the whole time of the header.
  @Test(arguments: [
    "http { access_log off; server { listen 127.0.0.1:1 proxy_protocol; return 204; } }",
    "stream { server { listen 127.0.0.1:1 proxy_protocol; return x; } }",
    "stream { server { listen 127.0.0.1:1; ssl_preread on; return x; } }",
  ])
  func `a byte that was looked at keeps no place, and one that nobody has seen does`(text: String) throws {
    let rig = try Rig(text: "events {} \(text)")
    for (unseen, isCut) in [("", true), ("more", false)] {
      let (session, peer) = try rig.connect()
      defer { close(peer) }
      let first: UInt8 = text.contains("preread") ? 0x16 : 0x50
      session.begin()
      #expect(send(peer, [first], 1, 0) == 1)
      session.transport.ready(.input)
      #expect(send(peer, unseen, unseen.utf8.count, 0) == unseen.utf8.count)
      #expect(session.evictionRank == .opening)
      #expect(session.cutUnlessSpeaking() == isCut && session.isClosed == isCut)
      session.cut()
    }
  }

  @Test func `many young handshakes end no verified client`() {
    let young = Array(repeating: (EvictionOrder.Rank.opening, UInt64(9999)), count: 13)
    #expect(Self.order([(.verified, 1)] + young, limit: 100).indexes(of: .verified) == [])
    #expect(Self.order([(.verified, 1)] + young.dropLast(), limit: 100).indexes(of: .verified) == [0])
  }

  @Test func `a client gets a place only where one is left for each that is about to need one`() {
    func vacancy(_ used: Int, _ opening: Int, _ expecting: Int) -> ConnectionRoom.Vacancy {
      ConnectionRoom(limit: 8, used: used, opening: opening, expecting: expecting).vacancy
    }
    #expect(vacancy(0, 0, 0) == .free && vacancy(7, 0, 0) == .free && vacancy(8, 0, 0) == .none)
    #expect(vacancy(4, 3, 0) == .free && vacancy(4, 4, 0) == .promised && vacancy(4, 2, 2) == .promised)
    #expect(vacancy(9, 0, 0) == .none)
  }

  @Test func `new clients wait as long as places become free from time to time, and then they are refused`() {
    var queue = AcceptQueue(patience: 5000)
    #expect(queue.answer(.free, now: 1) == .serve)
    #expect(queue.answer(.none, now: 100) == .wait)
    #expect(queue.answer(.none, now: 5099) == .wait)
    #expect(queue.answer(.free, now: 5099) == .serve)
    #expect(queue.answer(.none, now: 5100) == .wait)
    #expect(queue.answer(.none, now: 10_099) == .wait)
    #expect(queue.answer(.none, now: 10_100) == .refuse)
    #expect(queue.answer(.promised, now: 10_101) == .serve)
    #expect(queue.answer(.free, now: 10_102) == .serve)
    #expect(queue.answer(.promised, now: 10_103) == .wait)
    #expect(queue.answer(.none, now: 1) == .wait, "a clock that goes back")
  }

  @Test func `without patience nobody waits`() {
    var queue = AcceptQueue(patience: 0)
    #expect(queue.answer(.none, now: 7) == .refuse && queue.answer(.promised, now: 7) == .serve)
  }

  @Test func `a search that found nothing waits for the next turn of the clock`() {
    var shortage = ConnectionShortage()
    #expect(shortage.maySearch(now: 7))
    shortage.didSearch(now: 7, ended: 0)
    #expect(!shortage.maySearch(now: 7))
    #expect(shortage.maySearch(now: 8))
    shortage.didSearch(now: 8, ended: 1)
    #expect(shortage.maySearch(now: 8))
  }

  @Test func `a budget asks for room only when it has none, takes what was made, and tells of what is free`() {
    let budget = ConnectionBudget(limit: 2)
    var asked = 0, freed = 0
    budget.makeRoom = { asked += 1 }
    budget.didFree = { freed += 1 }
    #expect(budget.take() && budget.take() && asked == 0 && budget.isFull)
    #expect(!budget.take() && asked == 1 && freed == 0)
    budget.makeRoom = { budget.giveBack() }
    #expect(budget.take() && budget.used == 2 && freed == 1)
  }
}
