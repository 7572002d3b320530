import Testing

@testable import Observability

@Suite struct `The last errors` {
  @Test func `a line that repeats is one with a count, and the oldest lines go first`() {
    let recent = RecentErrors()
    recent.note(.error, "a", at: 1)
    recent.note(.error, "a", at: 2)
    recent.note(.crit, "a", at: 3)
    #expect(recent.all(since: 0).map(\.count) == [2, 1] && recent.all(since: 3).map(\.level) == [.crit])
    for number in 0..<(RecentErrors.limit + 5) { recent.note(.error, "\(number)", at: 10) }
    let all = recent.all(since: 0)
    #expect(all.count == RecentErrors.limit && all.first?.text == "5")
    #expect(all.last?.text == "\(RecentErrors.limit + 4)")
    recent.note(.error, "\(RecentErrors.limit + 4)", at: 11)
    #expect(recent.all(since: 11).map(\.count) == [2])
  }

  @Test func `a long line is cut, and still repeats`() {
    let recent = RecentErrors(), long = String(repeating: "ä", count: 400)
    for _ in 0..<2 { recent.note(.error, long, at: 1) }
    #expect(recent.all(since: 0).map(\.count) == [2])
    #expect((recent.all(since: 0).first?.text.utf8.count ?? 0) <= RecentErrors.longest + 3)
  }

  @Test func `only what the log takes is kept, from error on`() {
    let tally = ErrorTally()
    let log = ErrorLog([], tally: tally)
    log.error("nobody takes it")
    log.emerg("kept")
    #expect(tally.recent.all(since: 0).map(\.text) == ["kept"])
  }
}
