import Features
import Traffic
import Forward
import Transport
import Crypto
import Observability
import TLS
import TestSupport
import Testing

@testable import Daemon

@Suite struct `Rounds of stapling` {
  @Test func `a response is asked for anew after an hour, however long it is valid, and earlier if it ends soon`() {
    let week: Int64 = 7 * 86_400
    #expect(StapleRefresh.wait(age: 0, left: week) == 3600)
    #expect(StapleRefresh.wait(age: 3600, left: week - 3600) == 0)
    // Reloads every ten minutes don't put it off.
    #expect(StapleRefresh.wait(age: 600, left: week - 600) == 3000)
    #expect(StapleRefresh.wait(age: 3000, left: week - 3000) == 600)
    #expect(StapleRefresh.wait(age: 0, left: 1200) == 600 && StapleRefresh.wait(age: 600, left: 600) == 0)
    #expect(StapleRefresh.wait(age: 0, left: 20) == 300 && StapleRefresh.wait(age: 400, left: -380) == 0)
    #expect(StapleRefresh.wait(age: .max, left: .max) == 0 && StapleRefresh.wait(age: -5, left: .min) == 300)
  }

  @MainActor
  @Test func `a response that ends, or never comes, is a fault that goes on`() async throws {
    let authority = try TestAuthority(), faults = OngoingFaults()
    let question = OCSPRequest(of: try authority.server().certificate, issuedBy: authority.root.certificate)
    let staple = Staple(question, responder: nil, isFromFile: true)
    let refresh = StapleRefresh(pool: BlockingPool(), faults: faults)
    refresh.refresh([staple], log: ErrorLog([]))
    // Nobody has answered yet, and nothing has failed.
    refresh.look(now: 0)
    #expect(faults.current.isEmpty)
    staple.put([1], validUntil: 100)
    staple.fail("no route")
    refresh.look(now: 99)
    #expect(faults.current.isEmpty)
    refresh.look(now: 100)
    #expect(faults.current.map(\.kind) == [.staple] && faults.current[0].words.hasSuffix(": no route"))
    staple.put([1], validUntil: 200)
    refresh.look(now: 150)
    #expect(faults.current.isEmpty)
    refresh.look(now: 200)
    #expect(faults.current.first?.words.hasSuffix("the response of the file has ended") == true)
    refresh.refresh([], log: ErrorLog([]))
    refresh.look(now: 200)
    #expect(faults.current.isEmpty)
  }

  @MainActor
  @Test func `a staple is let go with its generation, not with its next turn`() async throws {
    let authority = try TestAuthority()
    let question = OCSPRequest(of: try authority.server().certificate, issuedBy: authority.root.certificate)
    let log = ErrorLog([])
    var staple: Staple? = Staple(question, responder: nil, isFromFile: false)
    let seen = Weak(staple)
    let refresh = StapleRefresh(pool: BlockingPool())
    refresh.refresh([staple].compactMap { $0 }, log: log)
    staple = nil
    // It names no responder: the next turn is in an hour.
    try await until("the first turn") { @MainActor in refresh.timers.count == 1 }
    #expect(seen.object != nil)
    refresh.refresh([], log: log)
    try await until("the staple to go") { @MainActor in seen.object == nil }
  }
}

@MainActor
private final class Weak {
  weak var object: Staple?
  init(_ object: Staple?) { self.object = object }
}
