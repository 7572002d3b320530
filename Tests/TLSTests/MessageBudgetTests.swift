@testable import TLS
import Testing

@Suite struct `Messages after the handshake` {
  @Test func `32 at once and one a second are allowed`() {
    var budget = MessageBudget()
    func allowed(_ count: Int, at now: UInt64) -> Int {
      var allowed = 0
      for _ in 0..<count where budget.take(now: now) { allowed += 1 }
      return allowed
    }
    #expect(allowed(40, at: 5000) == 32 && allowed(1, at: 5999) == 0 && allowed(2, at: 6000) == 1)
    #expect(allowed(40, at: .max) == 32 && allowed(1, at: 0) == 0, "also a clock that goes back")
  }
}
