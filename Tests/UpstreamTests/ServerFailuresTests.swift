import Observability
import Testing

@testable import Upstream

@Suite struct `What is told of a group's failures` {
  @Test func `a dead server is told once, and that it is back`() {
    var failures = ServerFailures(servers: 2)
    #expect(failures.isEmpty)
    #expect(failures.failed(0, "refused", now: 1000) == .write(withheld: 0))
    for now in UInt64(1001)...12_008 { #expect(failures.failed(0, "refused", now: now) == .withhold) }
    #expect(!failures.isEmpty)
    // Another server's answer says nothing of this one.
    #expect(failures.answered(1, now: 20_000) == nil && !failures.isEmpty)
    let back = failures.answered(0, now: 20_000)
    #expect(back?.failures == 11_009 && back?.milliseconds == 19_000)
    #expect(failures.isEmpty && failures.answered(0, now: 20_001) == nil)
    #expect(failures.failed(0, "refused", now: 20_002) == .write(withheld: 0))
  }

  @Test func `servers and the group are told apart`() {
    var failures = ServerFailures(servers: 2)
    for server in [0, 1, nil] { #expect(failures.failed(server, "refused", now: 1) == .write(withheld: 0)) }
    for server in [0, 1, nil] { #expect(failures.failed(server, "refused", now: 2) == .withhold) }
    // A number that is no server's is the group's.
    #expect(failures.failed(7, "refused", now: 2) == .withhold)
    #expect(failures.answered(7, now: 5000) == nil && failures.answered(2, now: 5000) == nil)
  }

  @Test func `who fails and answers by turns is not back`() {
    var failures = ServerFailures(servers: 1)
    var written = 0, back = 0
    for step in 0..<10_000 {
      if failures.failed(0, "reset", now: UInt64(step)) != .withhold { written += 1 }
      if failures.answered(0, now: UInt64(step)) != nil { back += 1 }
    }
    #expect(written == 1 && back == 0)
  }

  @Test func `a single failure has had its line: nothing is said of its end`() {
    var failures = ServerFailures(servers: 1)
    _ = failures.failed(0, "reset", now: 0)
    #expect(failures.answered(0, now: 5000) == nil && failures.isEmpty)
  }
}
