@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `The rate of a body` {
  @Test func `nothing is expected within the grace, and the rate for each whole second after it`() {
    let pace = BodyPace(rate: 100, grace: 60_000)
    #expect(pace.isKept(received: 0, elapsed: 0) && pace.isKept(received: 0, elapsed: 60_999))
    #expect(!pace.isKept(received: 99, elapsed: 61_000) && pace.isKept(received: 100, elapsed: 61_999))
    #expect(!pace.isKept(received: 5999, elapsed: 120_000) && pace.isKept(received: 6000, elapsed: 120_000))
  }

  @Test func `0 expects nothing, and no number is too large`() {
    #expect(BodyPace(rate: 0, grace: 0).isKept(received: 0, elapsed: .max))
    #expect(!BodyPace(rate: .max, grace: 0).isKept(received: .max, elapsed: .max))
    #expect(!BodyPace(rate: 1, grace: -5).isKept(received: 0, elapsed: 1000))
  }
}
