import Transport
import Crypto
import Observability
import TLS
import TestSupport
import Testing

@testable import Daemon

@Suite struct `Rounds of stapling` {
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
