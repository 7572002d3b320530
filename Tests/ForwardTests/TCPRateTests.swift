@testable import Features
@testable import Forward
import Testing
@testable import Traffic

/// `proxy_upload_rate` and `proxy_download_rate`: nginx lets a rate more pass in each second that has begun.
@Suite struct `The rate of a session` {
  @Test func `each second that has begun allows a rate more`() {
    var rate = TCPRate(rate: 100, start: 5_000)
    #expect(rate.allowance(now: 5_000) == 100)
    rate.take(60)
    #expect(rate.allowance(now: 5_999) == 40)
    rate.take(40)
    #expect(rate.allowance(now: 5_999) == 0 && rate.allowance(now: 6_000) == 100)
    #expect(rate.allowance(now: 8_000) == 300)
  }

  @Test func `what came too early is taken off later`() {
    var rate = TCPRate(rate: 10, start: 0)
    rate.take(25)
    #expect(rate.allowance(now: 0) == 0 && rate.allowance(now: 1_000) == 0 && rate.allowance(now: 2_000) == 5)
  }

  @Test func `a wait ends with the second, and is never 0`() {
    let rate = TCPRate(rate: 10, start: 5_300)
    #expect(rate.wait(now: 5_300) == 1_000 && rate.wait(now: 5_301) == 999 && rate.wait(now: 6_299) == 1)
    #expect(rate.wait(now: 6_300) == 1_000)
  }

  @Test func `a clock before the start is the start`() {
    let rate = TCPRate(rate: 10, start: 100)
    #expect(rate.allowance(now: 0) == 10 && rate.wait(now: 0) == 1_000)
  }

  @Test func `nothing overflows`() {
    var rate = TCPRate(rate: .max, start: 0)
    #expect(rate.allowance(now: .max) == .max && rate.allowance(now: 2_000) == .max)
    rate.take(.max)
    rate.take(1)
    #expect(rate.taken == .max && rate.allowance(now: 0) == 0)
    #expect(TCPRate(rate: 1, start: 0).allowance(now: .max) > 1 << 50)
    var negative = TCPRate(rate: -5, start: 0)
    negative.take(-1)
    #expect(negative.allowance(now: 0) == 1)
  }
}
