import Crypto
import Testing

@testable import Envelope

@Suite struct `The replay window` {
  private let first = [UInt8](repeating: 1, count: 12), second = [UInt8](repeating: 2, count: 16)

  @Test func `an IV is new once within the time`() {
    let window = ReplayWindow()
    #expect(window.look(first, now: 0, span: 100, remembers: true) == .new)
    #expect(window.look(second, now: 50, span: 100, remembers: true) == .new)
    #expect(window.look(first, now: 100, span: 100, remembers: true) == .seen)
    #expect(window.look(first, now: 101, span: 100, remembers: true) == .new)
    #expect(window.look(second, now: 150, span: 100, remembers: false) == .seen)
    #expect(window.look(second, now: 151, span: 100, remembers: false) == .new)
  }

  @Test func `what is only looked at is not remembered`() {
    let window = ReplayWindow()
    #expect(window.look(first, now: 0, span: 100, remembers: false) == .new)
    #expect(window.look(first, now: 0, span: 100, remembers: true) == .new)
    #expect(window.look(first, now: 0, span: 100, remembers: false) == .seen)
  }

  @Test func `a full window lets nothing new in, and forgets nothing`() {
    let window = ReplayWindow(limit: 2)
    #expect(window.look(first, now: 0, span: 100, remembers: true) == .new)
    #expect(window.look(second, now: 10, span: 100, remembers: true) == .new)
    #expect(window.look([3], now: 50, span: 100, remembers: true) == .unknown)
    #expect(window.look(first, now: 50, span: 100, remembers: true) == .seen)
    #expect(window.look([3], now: 101, span: 100, remembers: true) == .new)
  }

  @Test func `sizes tell IVs apart, and a longer time counts for what is known`() {
    let window = ReplayWindow()
    #expect(window.look([0, 1], now: 0, span: 100, remembers: true) == .new)
    #expect(window.look([1], now: 0, span: 100, remembers: true) == .new)
    #expect(window.look([1], now: 900, span: 1000, remembers: true) == .seen)
  }

  @Test func `an opener remembers what it opened, and nothing else`() throws {
    let suite = Parts.suite(.aes128CBC, "hmac-sha256")
    let keys = try #require(Parts.keys(suite))
    let opener = Opener(keys, replays: ReplayGuard(ReplayWindow(), span: 1000))
    let sealed = try Sealer(requests: keys).sealed([1, 2, 3])
    let text = String(decoding: sealed, as: UTF8.self)
    let forged = text.replacing("\"mac\":\"", with: "\"mac\":\"AAAA", maxReplacements: 1)
    #expect(forged != text)
    var spoilt = sealed
    spoilt[8] = spoilt[8] == 0x41 ? 0x42 : 0x41
    #expect(opener.outcome(spoilt) == .failure(.forged))
    #expect(opener.outcome(sealed) == .success([1, 2, 3]))
    #expect(opener.outcome(sealed) == .failure(.replayed))
    #expect(opener.outcome(spoilt) == .failure(.forged))
    #expect(opener.outcome(sealed, now: 1001) == .success([1, 2, 3]))
    #expect(Opener(keys).outcome(sealed) == .success([1, 2, 3]))
  }
}
