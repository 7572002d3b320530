import Synchronization
import TestSupport
import Testing

@testable import Transport

@Suite struct `Work that waits` {
  @Test func `who waits for one party holds up nobody who waits for another`() async throws {
    let parties = BlockingParties<String>("test", parties: 8, lanes: 2, limit: 16)
    let answered = Flag(), ended = Mutex(0)
    for _ in 0..<16 {
      #expect(
        parties.run(for: "silent") {
          answered.wait()
          ended.withLock { $0 += 1 }
        })
    }
    #expect(!parties.run(for: "silent") {}, "its line is full")
    await withCheckedContinuation { continuation in
      #expect(parties.run(for: "other") { continuation.resume() })
    }
    #expect(ended.withLock { $0 } == 0)
    answered.raise()
    try await until("the silent one's work to end") { ended.withLock { $0 } == 16 }
  }

  @Test func `no more parties than the bound have work, and one that has none any more makes room`() async throws {
    let parties = BlockingParties<Int>("test", parties: 2, lanes: 1, limit: 4)
    let answered = Flag(), ended = Mutex(0)
    for party in 0..<2 {
      #expect(
        parties.run(for: party) {
          answered.wait()
          ended.withLock { $0 += 1 }
        })
    }
    #expect(!parties.run(for: 2) {})
    answered.raise()
    try await until("room") { parties.run(for: 2) {} }
    #expect(ended.withLock { $0 } > 0)
  }

  @Test func `work goes where the least waits`() async throws {
    let work = BlockingWork("test", lanes: 2, limit: 16)
    let answered = Flag(), first = Flag(), ended = Flag()
    #expect(
      work.run {
        first.raise()
        answered.wait()
        ended.raise()
      })
    try await until("the first to wait") { first.isRaised }
    for _ in 0..<4 {
      await withCheckedContinuation { continuation in #expect(work.run { continuation.resume() }) }
    }
    #expect(!ended.isRaised && !work.isIdle)
    answered.raise()
    try await until("nothing to wait") { work.isIdle }
  }
}
