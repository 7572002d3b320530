import Testing

@testable import TLS

/// Times are microseconds.
@Suite struct `Responders that let their time run out` {
  private let here = "a.test:80"
  private let other = "b.test:80"

  @Test func `after a time-out one question at a time is let through, of that address alone`() {
    var silence = ResponderSilence()
    #expect(silence.admit(here, at: 0) == .open)
    silence.ended(here, .open, .timedOut, at: 10)
    #expect(silence.admit(here, at: 11) == .probe)
    #expect(silence.admit(here, at: 12) == .refused)
    #expect(silence.admit(other, at: 12) == .open)
  }

  @Test func `a probe that is heard of ends the silence, whatever it heard`() {
    var silence = ResponderSilence()
    silence.ended(here, .open, .timedOut, at: 0)
    #expect(silence.admit(here, at: 1) == .probe)
    silence.ended(here, .probe, .heard, at: 2)
    #expect(silence.admit(here, at: 3) == .open && silence.admit(here, at: 3) == .open)
  }

  @Test func `a probe that times out leaves the next one its turn`() {
    var silence = ResponderSilence()
    silence.ended(here, .open, .timedOut, at: 0)
    #expect(silence.admit(here, at: 1) == .probe)
    silence.ended(here, .probe, .timedOut, at: 2)
    #expect(silence.admit(here, at: 3) == .probe && silence.admit(here, at: 3) == .refused)
  }

  @Test func `a fault of another kind silences nobody`() {
    var silence = ResponderSilence()
    for now in 0..<5 {
      #expect(silence.admit(here, at: Int64(now)) == .open)
      silence.ended(here, .open, .heard, at: Int64(now))
    }
  }

  @Test func `silence is over after a few seconds, but for a probe that is still under way`() {
    var silence = ResponderSilence()
    silence.ended(here, .open, .timedOut, at: 0)
    #expect(silence.admit(here, at: ResponderSilence.length) == .open)
    silence.ended(here, .open, .timedOut, at: 0)
    #expect(silence.admit(here, at: 1) == .probe)
    #expect(silence.admit(here, at: 2 * ResponderSilence.length) == .refused)
    #expect(ResponderSilence.length <= 10_000_000)
  }

  @Test func `another question's time-out lets no second probe through`() {
    var silence = ResponderSilence()
    silence.ended(here, .open, .timedOut, at: 0)
    #expect(silence.admit(here, at: 1) == .probe)
    silence.ended(here, .open, .timedOut, at: 2)
    #expect(silence.admit(here, at: 3) == .refused)
    silence.ended(here, .refused, .heard, at: 3)
    #expect(silence.admit(here, at: 4) == .refused)
  }
}
