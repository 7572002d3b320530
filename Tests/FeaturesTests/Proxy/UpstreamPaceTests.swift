@testable import Features
@testable import Forward
import TestSupport
import Testing
@testable import Traffic

@Suite struct UpstreamPaceTests {
  @Test func `each second that has begun allows one rate more`() {
    var pace = UpstreamPace(rate: 1000, start: 5000)
    #expect(pace.take(999, now: 5000) == nil)
    #expect(pace.take(1, now: 5999) == 1)
    #expect(pace.take(0, now: 6000) == nil)
    #expect(pace.take(1500, now: 6000) == 501)
    #expect(pace.take(0, now: 7000) == nil)
    // A clock that goes back counts as none.
    #expect(pace.take(0, now: 4000) == 1501)
  }

  @Test func `no amount and no time overflows`() {
    var pace = UpstreamPace(rate: .max, start: 0)
    #expect(pace.take(.max, now: .max) == nil)
    #expect(pace.take(.max, now: .max) == nil)
    var slow = UpstreamPace(rate: 0, start: .max)
    #expect((slow.take(.max, now: 0) ?? 0) > 0)
    #expect((slow.take(.max, now: 0) ?? 0) > 0)
    #expect(slow.take(-1, now: 0) != nil)
  }
}
