import Testing

@testable import Observability

@Suite struct `Lines that repeat` {
  @Test func `one text is written at once, and then every 30 seconds with how many were left out`() {
    var lines = RepeatedLines()
    #expect(lines.choose("refused", now: 1000) == .write(withheld: 0))
    for now in UInt64(1001)...1500 { #expect(lines.choose("refused", now: now) == .withhold) }
    #expect(lines.choose("refused", now: 30_999) == .withhold)
    #expect(lines.choose("refused", now: 31_000) == .write(withheld: 501))
    #expect(lines.choose("refused", now: 31_001) == .withhold)
    #expect(lines.count == 504 && lines.withheld == 502)
  }

  @Test func `another text is never left out for the first one's sake`() {
    var lines = RepeatedLines()
    for text in ["refused", "timed out", "pin"] {
      #expect(lines.choose(text, now: 5) == .write(withheld: 0), "\(text)")
    }
    for text in ["refused", "timed out", "pin"] { #expect(lines.choose(text, now: 6) == .withhold, "\(text)") }
  }

  @Test func `texts that a peer varies share the last place`() {
    var lines = RepeatedLines()
    let written = (0..<10_000).count { lines.choose("key \($0)", now: 7) != .withhold }
    #expect(written == RepeatedLines.places + 1)
    #expect(lines.choose("key 0", now: 8) == .withhold)
    #expect(lines.choose("yet another", now: 7 + RepeatedLines.pause) == .write(withheld: 9991))
  }

  @Test func `what is over is forgotten, and a clock that stands still or wraps does no harm`() {
    var lines = RepeatedLines()
    _ = lines.choose("refused", now: .max)
    #expect(lines.choose("refused", now: .max) == .withhold)
    #expect(lines.choose("refused", now: 0) == .withhold)
    #expect(!lines.isEmpty)
    lines.forget()
    #expect(lines.isEmpty && lines.withheld == 0)
    #expect(lines.choose("refused", now: 0) == .write(withheld: 0))
  }

  @Test func `a budget of lines is a second's, and the rest is a number`() {
    var budget = LineBudget()
    let written = (0..<25_000).count { _ in budget.take(now: 500) }
    #expect(written == LineBudget.lines)
    let withheld = [budget.takeWithheld(), budget.takeWithheld()]
    #expect(withheld == [25_000 - UInt64(LineBudget.lines), nil])
    let later = [budget.take(now: 1499), budget.take(now: 1500)]
    #expect(later == [false, true])
    let last = budget.takeWithheld()
    #expect(last == 1)
  }
}
