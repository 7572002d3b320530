import Testing

@testable import Daemon

@Suite struct `The rounds of a stop` {
  @Test func `end with the pause in which everybody has ended`() {
    var rounds = StopRounds()
    #expect(rounds.presentEnded() == .pause)
    #expect(rounds.presentEnded() == .end)
    #expect(rounds.pauseIsOver() == .none)
    #expect(rounds.presentEnded() == .none)
  }

  @Test func `go on while somebody who came meanwhile stays for longer than a pause`() {
    var rounds = StopRounds()
    for _ in 1...3 {
      #expect(rounds.presentEnded() == .pause)
      #expect(rounds.pauseIsOver() == .serve)
    }
    #expect(rounds.presentEnded() == .pause)
    #expect(rounds.presentEnded() == .end)
  }
}
