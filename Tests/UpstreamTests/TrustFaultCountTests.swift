import TLS
import Testing
import Upstream

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
