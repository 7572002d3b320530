@testable import Features
@testable import Forward
import Observability
import Synchronization
import TestSupport
import Testing
@testable import Traffic
import Transport

@Suite struct `A state file that could not be written` {
  /// Says how each attempt ends, in turn: nil is well; and counts the attempts.
  private final class Disk: Sendable {
    private let state: Mutex<(answers: [String?], count: Int)>
    init(_ answers: [String?]) { state = Mutex((answers, 0)) }
    var count: Int { state.withLock { $0.count } }
    func write() -> String? {
      state.withLock { state in
        state.count += 1
        return state.answers.isEmpty ? nil : state.answers.removeFirst()
      }
    }
  }

  @Test func `is written again after 4 s, then less often, until it can be`() async throws {
    let ongoing = OngoingFaults(), pool = BlockingPool(), log = ErrorLog([])
    let states = UnwrittenStates(ongoing), disk = Disk(["full", nil])
    states.note("/s", "full", { disk.write() }, now: 1000)
    #expect(
      ongoing.current == [
        .init(kind: .state, name: "/s", words: "\"/s\" could not be written, so a restart forgets changes: full")
      ])
    states.retry(pool, log, now: 4999)
    #expect(disk.count == 0)
    states.retry(pool, log, now: 5000)
    try await until("the first attempt to be noted") {
      states.retry(pool, log, now: 5000)
      return disk.count == 1
    }
    // The wait doubles from the real clock's time on, so the far future is due.
    try await until("the second attempt") {
      states.retry(pool, log, now: .max)
      return disk.count == 2
    }
    try await until("the fault to be over") { ongoing.current.isEmpty }
    states.retry(pool, log, now: .max)
    #expect(disk.count == 2)
  }

  @Test func `is forgotten once a later change could be written, or no configuration has it`() {
    let ongoing = OngoingFaults(), pool = BlockingPool(), log = ErrorLog([])
    let states = UnwrittenStates(ongoing), disk = Disk([])
    states.note("/s", "full", { disk.write() }, now: 0)
    states.note("/s", nil, { nil }, now: 0)
    #expect(ongoing.current.isEmpty)
    states.note("/s", "full", { disk.write() }, now: 0)
    states.keep(only: [])
    states.retry(pool, log, now: .max)
    #expect(ongoing.current.isEmpty && disk.count == 0)
    // A write that was under way ends after the reload that removed the file.
    states.note("/s", "full", { disk.write() }, now: 0)
    states.retry(pool, log, now: .max)
    #expect(ongoing.current.isEmpty && disk.count == 0)
    states.keep(only: ["/s"])
    states.note("/s", "full", { disk.write() }, now: 0)
    #expect(ongoing.current.count == 1)
  }

  @Test func `a fault of what the configuration has no more is not taken`() {
    let faults = OngoingFaults()
    #expect(faults.note(.register, "a", "one") && faults.note(.upkeep, "a", "two"))
    faults.keep(.register, only: ["b"])
    #expect(!faults.note(.register, "a", "three") && faults.note(.register, "b", "four"))
    #expect(faults.current.map(\.words) == ["four", "two"])
  }
}

@Suite struct `Faults that go on` {
  @Test func `are there until they are over, in an order that stays`() {
    let faults = OngoingFaults()
    #expect(faults.note(.helper, "b", "b ended") && !faults.note(.helper, "b", "b ended again"))
    faults.note(.register, "z", "no database")
    faults.note(.register, "a", "no database")
    faults.set(.staple, ["x": "none"])
    #expect(faults.current.map(\.name) == ["a", "z", "x", "b"])
    faults.keep(.register, only: ["z"])
    faults.set(.staple, [:])
    #expect(!faults.note(.helper, "b", nil))
    #expect(faults.current.map(\.name) == ["z"])
  }
}
