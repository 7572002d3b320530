import Testing

@testable import Daemon

@Suite struct `Files that were refused` {
  @Test func `are tried again, later each time, and not at all once they are taken`() {
    var turns = RetryTurns()
    func looks() -> Int? { (1...40).first { _ in turns.isDue() } }
    #expect(looks() == nil)
    for expected in [2, 4, 8, 16, 16] {
      turns.failed()
      #expect(looks() == expected)
    }
    turns = RetryTurns()
    #expect(looks() == nil)
  }
}
