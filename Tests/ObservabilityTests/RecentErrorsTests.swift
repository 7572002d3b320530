import Testing

@testable import Observability

@Suite struct `The last errors` {
  private let recent = RecentErrors()

  @Test func `a line that repeats is one with a count, and the oldest lines go first`() {
    recent.note(.error, "a", at: 1)
    recent.note(.error, "a", at: 2)
    recent.note(.crit, "a", at: 3)
    #expect(
      recent.all.map(\.count) == [2, 1] && recent.all.map(\.level) == [.error, .crit]
        && recent.all.map(\.time) == [2, 3])
    for number in 0..<(RecentErrors.limit + 5) { recent.note(.error, "\(number)", at: 10) }
    let all = recent.all
    #expect(all.count == RecentErrors.limit && all.first?.text == "5")
    #expect(all.last?.text == "\(RecentErrors.limit + 4)")
    recent.note(.error, "\(RecentErrors.limit + 4)", at: 11)
    #expect(recent.last?.entry == recent.all.last && recent.last?.entry.count == 2)
    #expect(recent.last?.total == UInt64(RecentErrors.limit + 9))
  }

  @Test func `a long line is cut between two characters, and still repeats`() {
    for _ in 0..<2 { recent.note(.error, String(repeating: "€", count: 400), at: 1) }
    #expect(recent.all.map(\.count) == [2])
    #expect(recent.last?.entry.text == String(repeating: "€", count: RecentErrors.longest / 3) + "…")
  }

  @Test func `only what the log takes is kept, from error on`() {
    let recorder = Recorder()
    let log = ErrorLog([ErrorLogSink(level: .info, handler: recorder.handler())], errors: recent)
    log.warn("only a warning")
    #expect(recent.last == nil)
    log.error("one")
    log.alert("two")
    log.notice("nothing")
    ErrorLog([], errors: recent).error("nobody takes it")
    #expect(recent.all.map(\.text) == ["one", "two"] && recent.last?.total == 2)
  }
}
