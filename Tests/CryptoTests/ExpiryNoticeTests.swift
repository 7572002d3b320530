import Testing

@testable import Crypto

@Suite struct `When an end is told` {
  private let day: Int64 = 86_400

  @Test func `two weeks before, but not in the first three quarters of a life`() {
    func ages(_ life: Int64, left: [Int64]) -> [ExpiryNotice.Age] {
      left.map { ExpiryNotice.standard.age(from: 0, to: life, at: life - $0) }
    }
    #expect(ages(365 * day, left: [14 * day + 1, 14 * day, 1, 0, -1]) == [.valid, .ending, .ending, .ended, .ended])
    #expect(ages(30 * day, left: [8 * day, 7 * day]) == [.valid, .ending])
    #expect(ages(4000, left: [1001, 1000]) == [.valid, .ending])
    #expect(ages(0, left: [0]) == [.ended])
  }

  @Test(arguments: [365, 30, 6]) func `an alert that compares with its start says the same`(days: Int64) {
    for notice in [ExpiryNotice.standard, .before(seconds: 2 * day)] {
      let start = notice.start(from: 0, to: days * day)
      #expect(notice.age(from: 0, to: days * day, at: start - 1) == .valid)
      #expect(notice.age(from: 0, to: days * day, at: start) == .ending)
    }
    #expect(ExpiryNotice.standard.start(from: 0, to: 6 * day) == 6 * day - 6 * day / 4)
  }

  @Test func `the words of what has ended are not those of what ends`() {
    #expect(ExpiryWords.ends(10 * day, at: 5 * day) == "ends in 5 days")
    #expect(ExpiryWords.ends(10 * day, at: 10 * day - 1) == "ends within a day")
    #expect(ExpiryWords.ends(10 * day, at: 10 * day) == "ended within the last day")
    #expect(ExpiryWords.ends(10 * day, at: 11 * day) == "ended 1 day ago")
    #expect(ExpiryWords.ends(10 * day, at: 14 * day + 5) == "ended 4 days ago")
  }

  @Test func `a time of the configuration counts as it is`() {
    #expect(ExpiryNotice.before(seconds: 60 * day).age(from: 0, to: 30 * day, at: 1) == .ending)
    #expect(ExpiryNotice.before(seconds: 0).age(from: 0, to: 30, at: 29) == .valid)
    #expect(ExpiryNotice.before(seconds: 0).age(from: 0, to: 30, at: 30) == .ended)
  }

  @Test(arguments: [Int64.min, -1, 0, 1, .max], [Int64.min, -1, 0, 1, .max])
  func `no time overflows`(begin: Int64, end: Int64) {
    for notice in [ExpiryNotice.standard, .before(seconds: .max), .before(seconds: 0)] {
      for now in [Int64.min, -1, 0, 1, .max] {
        #expect((notice.age(from: begin, to: end, at: now) == .ended) == (end <= now))
        _ = notice.start(from: begin, to: end)
        _ = ExpiryWords.ends(end, at: now)
      }
    }
  }
}
