@testable import Features
@testable import Forward
import Testing
@testable import Traffic
import Transport

@Suite struct `The order of handshakes` {
  private final class Line {
    private var line = HandshakeLine()
    var kept: Int { line.kept }
    var isEmpty: Bool { line.isEmpty }
    func add(_ client: UInt64, _ origin: HandshakeTurns.Origin?) { line.add(client, origin) }
    func next(now: UInt64 = 0) -> UInt64? { line.next(now: now)?.client }
    func spend(_ microseconds: UInt64, of origin: HandshakeTurns.Origin?, now: UInt64 = 0) {
      line.spend(microseconds, of: origin, now: now)
    }
    func all(now: UInt64 = 0) -> [UInt64] {
      var all: [UInt64] = []
      while let client = next(now: now) { all.append(client) }
      return all
    }
  }

  private let flood = HandshakeTurns.Origin.ipv4(1), other = HandshakeTurns.Origin.ipv4(2)

  @Test func `of origins that have cost nothing, the client goes first that came first`() {
    let line = Line()
    line.add(1, flood)
    line.add(2, other)
    line.add(3, nil)
    line.add(4, flood)
    #expect(line.all() == [1, 2, 3, 4] && line.isEmpty && line.kept == 0)
  }

  @Test func `a client stands in the line once`() {
    let line = Line()
    line.add(1, flood)
    line.add(1, flood)
    #expect(line.all() == [1])
    line.add(1, flood)
    #expect(line.all() == [1])
  }

  @Test func `D(HE)at: an origin whose handshakes cost much waits for those that cost little`() {
    let line = Line()
    for client in 1...20 { line.add(UInt64(client), flood) }
    #expect(line.next() == 1)
    line.spend(141_000, of: flood)
    line.add(100, other)
    #expect(line.next() == 100)
    // Cheap handshakes go on before it until they have cost as much.
    line.spend(300, of: other)
    line.add(101, other)
    #expect(line.next() == 101 && line.next() == 2)
    line.spend(150_000, of: other)
    line.add(102, other)
    #expect(line.next() == 3)
  }

  @Test func `what a handshake cost is forgotten by halves`() {
    let line = Line()
    line.spend(1_000_000, of: flood, now: 0)
    line.spend(400_000, of: other, now: 2000)
    line.add(1, other)
    line.add(2, flood)
    #expect(line.all(now: 2000) == [2, 1])
    line.spend(1, of: nil, now: 1_000_000)
    line.add(3, other)
    line.add(4, flood)
    #expect(line.all(now: 1_000_000) == [3, 4])
  }

  @Test func `a flood from many addresses takes no more memory than the limit`() {
    let line = Line()
    for number in 0..<3 * UInt32(HandshakeLine.limit) { line.spend(200_000, of: .ipv4(number)) }
    #expect(line.kept <= HandshakeLine.limit)
    for number in 0..<3 * UInt32(HandshakeLine.limit) { line.spend(1, of: .ipv4(number), now: 100_000) }
    #expect(line.kept <= HandshakeLine.limit)
    line.spend(.max, of: flood, now: 100_000)
    line.spend(.max, of: flood, now: 100_000)
    #expect(line.kept <= HandshakeLine.limit)
  }
}
