@testable import Features
@testable import Forward
import Observability
import Testing
@testable import Traffic
import Transport
import Upstream

@Suite struct `Counts of sessions of stream` {
  private func totals(_ meters: SessionMeter...) -> SessionTotals {
    var totals = SessionTotals()
    for meter in meters { meter.add(to: &totals) }
    return totals
  }

  @Test func `each result is counted once, and by what an operator does about it`() {
    let meter = SessionMeter()
    for result in SessionResult.allCases {
      meter.didBegin()
      meter.didEnd(result, after: 5)
    }
    let totals = totals(meter)
    #expect(totals.results.allSatisfy { $0 == 1 } && totals.open == 0)
    #expect(totals.ended == UInt64(SessionResult.allCases.count) && totals.times.count == totals.ended)
    #expect(totals.times.sum == 5 * totals.ended)
    #expect(totals.refused == 5 && totals.failed == 7)
    #expect(SessionResult.allCases.allSatisfy { !($0.isRefusal && $0.isFailure) })
  }

  @Test func `a session moves to the server block of its name with all that it counts later`() {
    let first = SessionMeter(), second = SessionMeter()
    var count = SessionCount()
    count.move(to: first)
    count.move(to: first)
    #expect(totals(first).open == 1)
    count.move(to: second)
    #expect(totals(first).open == 0 && totals(second).open == 1)
    count.take(received: 10, sent: 20)
    count.take(received: 15, sent: 20)
    count.take(received: 15, sent: 20)
    count.end(.ok, after: 70_000)
    count.end(.ok, after: 70_000)
    #expect(totals(first).ended == 0 && totals(first).received == 0)
    let all = totals(second)
    #expect(all.ended == 1 && all.open == 0 && all.received == 15 && all.sent == 20)
    #expect(all.times.bound(of: 1) == 600_000)
  }

  @Test func `without a location that shows counts, nobody counts`() {
    var count = SessionCount()
    count.move(to: nil)
    count.take(received: 1, sent: 1)
    count.end(.ok, after: 1)
    let meter = SessionMeter()
    // A reload that shows them again counts the sessions that begin from then on.
    count.move(to: meter)
    #expect(totals(meter).open == 1)
  }

  @Test func `the status is one of nginx's, and failures of steps have their results`() {
    #expect(Set(SessionResult.allCases.map(\.status)) == [200, 400, 403, 500, 502, 503])
    for cause in [RefusalCause.address, .limit(status: 503), .upstream, .fault] {
      #expect(SessionResult(cause).status == cause.status)
    }
    #expect(SessionResult.allCases.filter { $0.closing == .abrupt } == [.clientBroke, .upstreamBroke])
    #expect(Set(SessionResult.allCases.map(\.rawValue)).count == SessionResult.allCases.count)
  }

  @Test func `long times are words that a person reads`() {
    var times = TimeHistogram(bounds: SessionBuckets.bounds)
    #expect(StatusWords.time(times, share: 0.5) == "–")
    for time: UInt64 in [3, 10, 11, 7_200_000] { times.buckets[SessionBuckets.place(of: time)] += 1 }
    #expect(times.buckets == [2, 1, 0, 0, 0, 0, 0, 1, 0, 0])
    #expect(StatusWords.time(times, share: 0.5) == "≤ 10 ms")
    #expect(StatusWords.time(times, share: 1) == "≤ 6 h")
    times.buckets[SessionBuckets.place(of: .max)] += 1
    #expect(StatusWords.time(times, share: 1) == "> 24 h")
    var page = PrometheusText()
    page.histogram("t", [:], times)
    #expect(page.text.contains("t_bucket{le=\"86400\"} 4\nt_bucket{le=\"+Inf\"} 5\n"))
  }
}
