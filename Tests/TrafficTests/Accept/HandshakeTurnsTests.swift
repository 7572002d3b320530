@testable import Features
@testable import Forward
import Testing
@testable import Traffic
import Transport

@Suite struct `Turns for TLS handshakes` {
  /// `#expect` takes no call that mutates a value.
  private final class Turns {
    private var turns: HandshakeTurns

    init(_ total: Int, _ perAddress: Int) {
      turns = HandshakeTurns(total: total, perAddress: perAddress)
    }

    var kept: Int { turns.kept }
    var isAwaited: Bool { turns.isAwaited }
    func mayBegin(_ client: UInt64, _ origin: HandshakeTurns.Origin?, now: UInt64) -> Bool {
      turns.mayBegin(client, origin, now: now)
    }
    func end(_ client: UInt64, now: UInt64) -> [UInt64] { turns.end(client, now: now) }
    func overdue(now: UInt64) -> [UInt64] { turns.overdue(now: now) }
    func limit(_ total: Int, _ perAddress: Int, now: UInt64) -> [UInt64] {
      turns.limit(total: total, perAddress: perAddress, now: now)
    }
    func crowds(_ client: UInt64) -> Bool { turns.crowds(client) }
    func isWaiting(_ client: UInt64) -> Bool { turns.isWaiting(client) }
    func turnCame(for client: UInt64) -> UInt64? { turns.turnCame(for: client) }
  }

  @Test func `who comes first begins, and who waits begins in the same order`() {
    let turns = Turns(2, 2)
    let begun = (1...4).map { turns.mayBegin(UInt64($0), nil, now: 0) }
    #expect(begun == [true, true, false, false])
    #expect(turns.mayBegin(1, nil, now: 0) && !turns.mayBegin(3, nil, now: 0), "asking again changes nothing")
    #expect(turns.end(2, now: 0) == [3])
    #expect(turns.mayBegin(3, nil, now: 0))
    #expect(turns.end(1, now: 0) == [4])
    #expect(turns.end(3, now: 0) == [] && turns.end(4, now: 0) == [] && !turns.isAwaited)
    #expect(turns.end(99, now: 0) == [], "a client that never asked")
  }

  @Test func `one address waits, and others go past it`() {
    let turns = Turns(4, 1)
    let one = HandshakeTurns.Origin.ipv4(1), other = HandshakeTurns.Origin.ipv4(2)
    #expect(turns.mayBegin(1, one, now: 0) && !turns.mayBegin(2, one, now: 0) && turns.mayBegin(3, other, now: 0))
    #expect(turns.end(3, now: 0) == [])
    #expect(turns.end(1, now: 0) == [2])
    #expect(turns.mayBegin(4, nil, now: 0) && turns.mayBegin(5, nil, now: 0), "a unix socket has no address")
  }

  @Test func `addresses take turns, however many of one wait`() {
    let turns = Turns(1, 1)
    let one = HandshakeTurns.Origin.ipv4(1), other = HandshakeTurns.Origin.ipv4(2)
    #expect(turns.mayBegin(1, one, now: 0))
    for client in UInt64(2)...9 { #expect(!turns.mayBegin(client, one, now: 0)) }
    #expect(!turns.mayBegin(10, other, now: 0))
    #expect(turns.end(1, now: 0) == [10], "the one that waits for its own address only")
    #expect(turns.end(10, now: 0) == [2])
    #expect(turns.end(2, now: 0) == [3])
  }

  @Test func `ten thousand who come and leave are forgotten, and those who stay begin`() {
    let turns = Turns(1, 1)
    let one = HandshakeTurns.Origin.ipv4(1)
    #expect(turns.mayBegin(0, one, now: 0) && !turns.mayBegin(1, one, now: 0))
    for client in UInt64(2)...10_000 {
      #expect(!turns.mayBegin(client, one, now: 0))
      #expect(turns.end(client, now: 0) == [])
      #expect(turns.kept <= 40)
    }
    #expect(turns.end(0, now: 0) == [1] && !turns.isAwaited)
    #expect(turns.end(1, now: 0) == [] && turns.kept == 0)
  }

  @Test func `who leaves while waiting gets no turn`() {
    let turns = Turns(1, 1)
    #expect(turns.mayBegin(1, nil, now: 0) && !turns.mayBegin(2, nil, now: 0) && !turns.mayBegin(3, nil, now: 0))
    #expect(turns.end(2, now: 0) == [])
    #expect(turns.end(1, now: 0) == [3])
  }

  @Test func `a handshake is overdue after three seconds, if others wait`() {
    let turns = Turns(1, 1)
    #expect(turns.mayBegin(1, nil, now: 1000))
    #expect(turns.overdue(now: 9000) == [])
    #expect(!turns.mayBegin(2, nil, now: 1000))
    #expect(turns.overdue(now: 3999) == [] && turns.overdue(now: 4000) == [1] && turns.overdue(now: 1) == [])
  }

  @Test func `a client that waited has its time from its turn on`() {
    let turns = Turns(1, 1)
    #expect(turns.mayBegin(1, nil, now: 0) && !turns.mayBegin(2, nil, now: 100))
    #expect(turns.turnCame(for: 1) == 0 && turns.turnCame(for: 2) == nil && turns.turnCame(for: 3) == nil)
    #expect(!turns.isWaiting(1) && turns.isWaiting(2) && !turns.isWaiting(3))
    #expect(turns.end(1, now: 5000) == [2] && turns.turnCame(for: 2) == 5000 && !turns.isWaiting(2))
  }

  @Test func `a line is a crowd from four times the room of its address on`() {
    let turns = Turns(4, 2)
    let one = HandshakeTurns.Origin.ipv4(1), other = HandshakeTurns.Origin.ipv4(2)
    for client in UInt64(1)...10 { _ = turns.mayBegin(client, one, now: 0) }
    for client in UInt64(21)...25 { _ = turns.mayBegin(client, other, now: 0) }
    #expect(!turns.crowds(10) && !turns.crowds(1), "eight wait")
    #expect(!turns.mayBegin(11, one, now: 0) && turns.crowds(3) && turns.crowds(11) && !turns.crowds(1))
    #expect(!turns.crowds(25), "three of another address wait")
  }

  @Test func `a reload that raises a limit lets those begin who wait for room of their address`() {
    let turns = Turns(8, 1)
    let one = HandshakeTurns.Origin.ipv4(1)
    #expect(turns.mayBegin(1, one, now: 0))
    for client in UInt64(2)...5 { #expect(!turns.mayBegin(client, one, now: 0)) }
    #expect(turns.limit(8, 3, now: 0) == [2, 3])
    #expect(turns.limit(1, 3, now: 0) == [] && turns.end(2, now: 0) == [] && turns.end(3, now: 0) == [])
    #expect(turns.end(1, now: 0) == [4])
  }

  @Test func `an address whose clients have left is forgotten, also where a reload takes its room`() {
    let turns = Turns(2, 2)
    let one = HandshakeTurns.Origin.ipv4(1)
    #expect(turns.mayBegin(1, one, now: 0) && turns.mayBegin(2, nil, now: 0) && !turns.mayBegin(3, one, now: 0))
    #expect(turns.end(3, now: 0) == [])
    #expect(turns.limit(2, 1, now: 0) == [])
    #expect(turns.end(2, now: 0) == [] && turns.end(1, now: 0) == [] && turns.kept == 0)
  }

  @Test func `an address of IPv6 counts by its first 64 bits`() {
    func origin(_ text: String) -> HandshakeTurns.Origin? {
      SocketAddress(literal: text, port: 1).flatMap { HandshakeTurns.Origin($0) }
    }
    #expect(origin("2001:db8::1") == origin("2001:db8::ffff:1") && origin("2001:db8::1") != origin("2001:db8:0:1::1"))
    #expect(origin("::ffff:192.0.2.1") == origin("192.0.2.1") && origin("::ffff:192.0.2.2") != origin("192.0.2.1"))
    #expect(origin("192.0.2.1") != origin("192.0.2.2") && HandshakeTurns.Origin(.unix(path: "/x")) == nil)
  }

  @Test func `gives back what a generation had one turn after its end, and once`() {
    let memory = GenerationMemory()
    #expect(!memory.turn())
    memory.generationEnded()
    #expect([memory.turn(), memory.turn(), memory.turn()] == [false, true, false])
    // Reloads without a pause cost one return a turn, and don't put it off.
    memory.generationEnded()
    #expect(!memory.turn())
    for _ in 0..<3 {
      memory.generationEnded()
      #expect(memory.turn())
    }
    #expect([memory.turn(), memory.turn()] == [true, false])
  }

  @Test func `memory is given back when half of many connections have ended, at most every ten seconds`() {
    var memory = MemoryReturn()
    func due(_ connections: Int, _ now: UInt64) -> Bool {
      memory.isDue(count: connections, peak: connections, now: now)
    }
    #expect(!due(0, 0) && !due(255, 1000) && !due(10, 2000))
    #expect(!due(400, 3000) && !due(201, 4000) && !due(200, 5000) && !due(200, 6000) && due(200, 7000))
    #expect(!due(200, 18_000), "said once")
    #expect(!due(1000, 19_000) && !due(100, 20_000) && !due(900, 21_000) && !due(100, 22_000), "no calm yet")
    #expect(!due(100, 23_000) && due(100, 24_000))
    #expect(!due(1000, 25_000) && !due(100, 26_000) && !due(100, 27_000) && !due(100, 28_000) && due(100, 34_000))
    var sudden = MemoryReturn()
    var isDue: [Bool] = []
    for peak in [5000, 3, 3] { isDue.append(sudden.isDue(count: 3, peak: peak, now: 0)) }
    #expect(isDue == [false, false, true], "a crowd that came and went within a second")
  }
}
