import HTTP
import Observability
import TLS
import Testing

@testable import Upstream

@Suite struct `Attempts at a server` {
  @Test func `have a place for each result, beside those of the times`() {
    let meter = AttemptMeter()
    for result in AttemptMeter.Result.allCases { meter.didEnd(result) }
    var totals = AttemptTotals()
    meter.add(to: &totals)
    #expect(totals.results.allSatisfy { $0 == 1 } && totals.times.count == 0 && totals.times.sum == 0)
    #expect(totals.attempts == UInt64(AttemptMeter.Result.allCases.count))
    #expect(totals.serverErrors == 1 && totals.failures == 11)
  }

  @Test func `have their statuses, and times of their heads and of whole responses`() {
    let meter = AttemptMeter()
    for (status, time) in [(404, 3), (299, 5)] { meter.didRespond(status, after: UInt64(time)) }
    meter.didMove(received: 5, sent: 6, after: 9)
    meter.didMove(received: 1, sent: 1, after: nil)
    meter.wasOut(for: 1000)
    var totals = AttemptTotals()
    for _ in 0..<2 { meter.add(to: &totals) }
    #expect(totals.results.prefix(5) == [0, 2, 0, 2, 0] && totals.codes.reduce(0, +) == 4 && totals.times.sum == 16)
    #expect(StatusPlaces.seen(totals.codes).map(\.status) == [404])
    #expect(totals.responses == 2 && totals.responseTime == 18 && totals.received == 12 && totals.downtime == 2000)
    #expect(totals.trustFaults.allSatisfy { $0 == 0 } && !totals.isUnavailable)
  }

  @Test func `of stream have succeeded once the connection is open`() {
    let meter = AttemptMeter()
    meter.didOpen(after: 7)
    var totals = AttemptTotals()
    meter.add(to: &totals)
    #expect(totals.attempts == 1 && totals.failures == 0 && totals.times.sum == 7 && totals.times.count == 1)
  }
}

@Suite struct `Trust faults of a server` {
  @Test func `are counted by their result, and others are none`() {
    let meter = AttemptMeter()
    for outcome in TrustOutcome.allCases { meter.didJudge(outcome) }
    meter.didJudge(.pin)
    var totals = AttemptTotals()
    meter.add(to: &totals)
    let counts = Dictionary(uniqueKeysWithValues: zip(AttemptMeter.trustFaults, totals.trustFaults))
    #expect(counts == [.chain: 1, .expired: 1, .revoked: 1, .name: 1, .pin: 2, .reportOnlyMismatch: 1])
    // The cells beside them.
    #expect(
      totals.results.allSatisfy { $0 == 0 } && totals.opened == 0 && !totals.isUnavailable && totals.truncated == 0)
  }
}
