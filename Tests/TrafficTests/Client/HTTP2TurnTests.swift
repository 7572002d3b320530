@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `Turns of HTTP 2` {
  /// Plays a connection that has no lack of input, whose bytes cause this much work each, and returns how much each turn
  /// reads and causes.
  private func turns(_ count: Int, workPerByte: Double, isStrained: Bool = false) -> [(bytes: Int, work: Int)] {
    var turn = HTTP2Turn(), work = 0
    return (0..<count).map { _ in
      let before = work
      turn.begin(work: work, isStrained: isStrained)
      var bytes = 0
      while !turn.isOver(work: work), bytes < 1 << 22 {
        bytes += turn.readSize
        turn.didRead(turn.readSize)
        work += Int(Double(turn.readSize) * workPerByte)
        if isStrained { break }
      }
      return (bytes, work - before)
    }
  }

  @Test func `a body is read in large pieces, up to a megabyte a turn`() {
    #expect(turns(3, workPerByte: 0).allSatisfy { $0.bytes == 1 << 20 })
  }

  @Test(arguments: [0.01, 0.1, 0.5, 1]) func `frames that cause work are soon read in pieces that fit a turn`(
    work: Double
  ) {
    let turns = turns(40, workPerByte: work)
    #expect(turns.dropFirst(8).allSatisfy { $0.work <= 2 * max(32, Int(128 * work)) && $0.bytes > 0 }, "\(turns)")
  }

  @Test func `a connection that is quiet again reads in large pieces again`() {
    var turn = HTTP2Turn()
    turn.begin(work: 0, isStrained: true)
    _ = turn.isOver(work: 1000)
    #expect(turn.readSize < 512)
    for _ in 0..<10 { turn.begin(work: 1000, isStrained: false) }
    #expect(turn.readSize == 16 * 1024)
  }

  @Test func `a strained connection reads no more than 512 bytes at a time`() {
    #expect(turns(5, workPerByte: 0, isStrained: true).allSatisfy { $0.bytes <= 512 })
  }
}
