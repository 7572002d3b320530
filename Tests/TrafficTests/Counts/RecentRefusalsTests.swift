import Testing
@testable import Traffic

@Suite struct `What was refused of late` {
  @Test func `it counts from the first refusal of the last ten minutes, with what passed since`() throws {
    var recent = RecentRefusals()
    #expect(recent.summary(passed: 7, at: 1000) == nil)
    for second in 0..<10 { recent.note("10.0.0.1", passed: 100 + UInt64(second), at: 1000 + Int64(second)) }
    let found = try #require(recent.summary(passed: 130, at: 1100))
    #expect(found == .init(refused: 10, passed: 30, name: "10.0.0.1", named: 10))
    #expect(found.share == 25 && found.words("requests") == "10 of 40 requests (25 %)")
    #expect(recent.summary(passed: 130, at: 1599)?.refused == 10)
    #expect(recent.summary(passed: 130, at: 1600) == nil)
  }

  @Test func `the older half goes first, and a clock that was set back begins anew`() throws {
    var recent = RecentRefusals()
    recent.note("a", passed: 0, at: 1000)
    recent.note("b", passed: 50, at: 1300)
    #expect(recent.summary(passed: 60, at: 1599) == .init(refused: 2, passed: 60, name: "a", named: 1))
    #expect(recent.summary(passed: 60, at: 1600) == .init(refused: 1, passed: 10, name: "b", named: 1))
    recent.note("c", passed: 70, at: 500)
    #expect(recent.summary(passed: 70, at: 500) == .init(refused: 1, passed: 0, name: "c", named: 1))
  }

  @Test func `a frequent name stays among any number of others, and no count of it is too high`() throws {
    var recent = RecentRefusals()
    for number in 0..<3000 {
      recent.note(number % 3 == 0 ? "often" : "once \(number)", passed: 0, at: 1000)
    }
    let found = try #require(recent.summary(passed: 0, at: 1000))
    #expect(found.refused == 3000 && found.share == 100 && found.name == "often")
    #expect(found.named <= 1000 && found.named > 800)
  }

  @Test func `no count overflows`() {
    let most = RecentRefusals.Summary(refused: .max, passed: .max, name: nil, named: 0)
    #expect(most.share == 100 && RecentRefusals.Summary(refused: 0, passed: 0, name: nil, named: 0).share == 100)
  }
}
