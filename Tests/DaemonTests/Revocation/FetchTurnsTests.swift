import Testing

@testable import Daemon

@Suite struct `When a revocation list is asked for` {
  private func succeeded(
    refresh: Int = 3600, freshFor: Int64? = nil, left: Int64? = nil, chance: Double = 0.5
  ) -> Int64 {
    var turns = FetchTurns(now: 100)
    _ = turns.begins(at: 100)
    turns.succeeded(at: 100, refresh: refresh, freshFor: freshFor, left: left, chance: chance)
    return turns.dueAt - 100
  }

  @Test func `at once, and not twice at a time`() {
    var turns = FetchTurns(now: 100)
    let first = turns.begins(at: 100)
    let second = turns.begins(at: 1000)
    #expect(first && !second)
  }

  @Test func `a success waits for the soonest of what bounds it`() {
    #expect(succeeded() == 3600)
    #expect(succeeded(freshFor: 600) == 600)
    #expect(succeeded(freshFor: 1) == FetchTurns.shortestLifetime)
    #expect(succeeded(refresh: 5, freshFor: 1) == 5)
    #expect(succeeded(freshFor: .max, left: .max) == 3600)
    #expect(succeeded(left: 1000) == 500)
    #expect(succeeded(left: 0) == 1)
    #expect(succeeded(left: -5) == 1)
    #expect(succeeded(refresh: 0) == 1)
  }

  @Test func `times vary by a tenth`() {
    #expect(succeeded(chance: 0) == 3240)
    #expect(succeeded(chance: 0.999_999) == 3959)
    #expect(succeeded(chance: .infinity) == 3960)
  }

  @Test func `failures in a row wait longer, up to five minutes, and a success forgets them`() {
    var turns = FetchTurns(now: 0)
    var waits: [Int64] = []
    var told: [Int] = []
    for _ in 0..<10 {
      let due = turns.dueAt
      let begins = turns.begins(at: due)
      #expect(begins)
      turns.failed(at: due, chance: 0.5)
      waits.append(turns.dueAt - due)
      if turns.isTold { told.append(turns.failures) }
    }
    #expect(waits == [4, 8, 16, 32, 64, 128, 256, 300, 300, 300])
    #expect(told == [1, 2, 4, 8])
    _ = turns.begins(at: turns.dueAt)
    turns.succeeded(at: 5000, refresh: 60, freshFor: nil, left: nil, chance: 0.5)
    #expect(turns.failures == 0 && !turns.isTold && turns.dueAt == 5060)
  }

  @Test(
    arguments: [
      ("max-age=60", 60), ("public, Max-Age = 5", 5), ("max-age=\"7\"", 7), ("max-age=99999999999999999999", Int64.max),
      ("s-maxage=5", nil), ("max-age=-1", nil), ("max-age=", nil), ("max-age", nil), ("", nil), ("max-age=1x", nil),
    ] as [(String, Int64?)]) func `the lifetime of a response is its max-age`(field: String, seconds: Int64?)
  {
    #expect(CacheLifetime.seconds(field) == seconds)
  }
}
