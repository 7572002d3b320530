@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `States of clients' connections` {
  @Test func `each open connection is counted in one state`() {
    let counts = TrafficCounts(), first = counts.addWorker(), second = counts.addWorker()
    func number(_ state: ClientState) -> UInt64 { counts.totals.states[state.rawValue] }
    for _ in 0..<3 { first.didHandle() }
    second.didHandle()
    #expect(number(.handshake) == 4)
    first.didChange(.handshake, to: .idle)
    first.didChange(.idle, to: .active)
    second.didChange(.handshake, to: .tunnel)
    #expect(number(.handshake) == 2 && number(.idle) == 0 && number(.active) == 1 && number(.tunnel) == 1)
    #expect(counts.totals.states.reduce(0, +) == counts.totals.active)
    first.didClose(.active)
    first.didClose(.handshake)
    second.didClose(.tunnel)
    #expect(number(.handshake) == 1)
    #expect(counts.totals.states.reduce(0, +) == 1 && counts.totals.active == 1)
  }

  @Test func `a session of stream is none of the connections that wait for a request`() {
    let counts = TrafficCounts(), worker = counts.addWorker()
    for _ in 0..<3 { worker.didHandle() }
    worker.didChange(.handshake, to: .stream)
    #expect(counts.totals.active == 3 && counts.totals.waiting == 2)
  }

  @Test func `HTTP 1 is active from the first byte of a head to the end of the response`() {
    #expect(HTTP1Connection.state(.idle, isReading: false) == .idle)
    #expect(HTTP1Connection.state(.idle, isReading: true) == .active)
    #expect(HTTP1Connection.state(.exchanging, isReading: false) == .active)
    #expect(HTTP1Connection.state(.rejoining, isReading: false) == .idle)
    #expect(HTTP1Connection.state(.tunnelling, isReading: false) == .tunnel)
    #expect(HTTP1Connection.state(.ending, isReading: false) == .draining)
    #expect(HTTP1Connection.state(.lingering, isReading: false) == .draining)
    #expect(HTTP1Connection.state(.closed, isReading: false) == nil)
  }

  @Test func `HTTP 2 is a tunnel if all its exchanges are, and drains once the last has ended`() {
    #expect(HTTP2Connection.state(.serving, active: 0, tunnels: 0) == .idle)
    #expect(HTTP2Connection.state(.serving, active: 2, tunnels: 1) == .active)
    #expect(HTTP2Connection.state(.serving, active: 2, tunnels: 2) == .tunnel)
    #expect(HTTP2Connection.state(.leaving(final: false), active: 1, tunnels: 0) == .active)
    #expect(HTTP2Connection.state(.leaving(final: true), active: 0, tunnels: 0) == .draining)
    #expect(HTTP2Connection.state(.closed, active: 1, tunnels: 0) == nil)
  }
}
