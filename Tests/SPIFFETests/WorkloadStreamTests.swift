import Testing

@testable import SPIFFE

@Suite struct `The stream to the agent` {
  @Test func `begins, is followed, and begins again after a short pause when it ends`() {
    var state = WorkloadStreamState()
    #expect(state.started() == .connect)
    #expect(state.started() == .none)
    state.answered()
    #expect(state.phase == .following)
    #expect(state.failed(.unavailable, spread: 0, now: 0) == .pause(milliseconds: 200))
    #expect(state.failed(.unavailable, spread: 0, now: 0) == .none)
    #expect(state.timePassed() == .connect)
    #expect(state.phase == .asking)
  }

  @Test func `is tried again in longer and longer pauses, for ever`() {
    var state = WorkloadStreamState()
    _ = state.started()
    var pauses: [Int] = []
    for _ in 0..<100 {
      guard case .pause(let time) = state.failed(.unavailable, spread: 0, now: 0) else { break }
      pauses.append(time)
      #expect(state.timePassed() == .connect)
    }
    #expect(pauses.count == 100)
    #expect(pauses.prefix(7) == [200, 400, 800, 1600, 3200, 6400, 10_000])
    #expect(pauses.last == 10_000)
    #expect(WorkloadStreamState.pause(after: 0, spread: .max) == 150)
    #expect(WorkloadStreamState.pause(after: .max, spread: .max) == 7500)
    state.answered()
    #expect(state.failed(.unavailable, spread: 0, now: 0) == .pause(milliseconds: 200))
  }

  @Test func `takes the identity back when the agent denies it on a stream on which it gave one`() {
    var state = WorkloadStreamState()
    _ = state.started()
    state.answered()
    #expect(state.failed(.denied, spread: 0, now: 0) == .withdraw(milliseconds: 200))
  }

  @Test func `gives an agent that has just started a minute to know its registrations`() {
    var state = WorkloadStreamState()
    _ = state.started()
    #expect(state.failed(.denied, spread: 0, now: 1000) == .pause(milliseconds: 200))
    _ = state.timePassed()
    #expect(state.failed(.denied, spread: 0, now: 60_999) == .pause(milliseconds: 400))
    _ = state.timePassed()
    #expect(state.failed(.denied, spread: 0, now: 61_000) == .withdraw(milliseconds: 800))
    _ = state.timePassed()
    // An agent that is away in between begins a new minute.
    _ = state.failed(.unavailable, spread: 0, now: 62_000)
    _ = state.timePassed()
    #expect(state.failed(.denied, spread: 0, now: 200_000) == .pause(milliseconds: 3200))
  }

  @Test func `does nothing more once it is stopped`() {
    var state = WorkloadStreamState()
    _ = state.started()
    #expect(state.stopped() == .close)
    #expect(state.failed(.unavailable, spread: 0, now: 0) == .none)
    #expect(state.timePassed() == .none)
    #expect(state.started() == .none)
    state.answered()
    #expect(state.phase == .stopped)
  }
}
