import Bytes
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

  @Test func `a span that was shorter for a while forgets nothing as long as there is room`() {
    let window = ReplayWindow(limit: 2)
    #expect(window.look(first, now: 0, span: 1000, remembers: true) == .new)
    #expect(window.look(first, now: 500, span: 100, remembers: false) == .seen)
    #expect(window.look(first, now: 900, span: 1000, remembers: true) == .seen)
    // Room for new ones comes before what no location asks for any more.
    #expect(window.look(second, now: 900, span: 100, remembers: true) == .new)
    #expect(window.look([3], now: 900, span: 100, remembers: true) == .new)
    #expect(window.look([4], now: 901, span: 100, remembers: true) == .unknown)
  }

  @Test func `a raised span admits nothing whose nonce the shorter one dropped`() {
    let window = ReplayWindow()
    // Made by a clock that is 500 ms ahead.
    #expect(window.look(first, now: 10_000, span: 2000, made: 10_500, remembers: true) == .new)
    #expect(window.look(second, now: 20_000, span: 2000, made: 20_000, remembers: true) == .new)
    #expect(window.look(first, now: 20_100, span: 60_000, made: 10_400, remembers: true) == .forgotten)
    #expect(window.look(first, now: 20_100, span: 60_000, made: 11_400, remembers: true) == .forgotten)
    // Made later than all that was forgotten, so it would be known.
    #expect(window.look([3], now: 20_100, span: 60_000, made: 11_600, remembers: true) == .new)
    #expect(window.look(second, now: 70_000, span: 60_000, made: 20_000, remembers: true) == .seen)
  }

  @Test func `a key has one window whoever names it, for as long as it remembers something`() throws {
    let windows = ReplayWindows()
    let old = try #require(Parts.keys(Parts.suite(.aes256GCM, "none")))
    let both = EnvelopeKeys(old.suite, current: try pair(old.suite, 9), previous: old.current)
    let sealed = try Sealer(requests: old).sealed([1])
    func open(_ keys: EnvelopeKeys, now: UInt64) -> Result<[UInt8], EnvelopeError> {
      Opener(keys, replays: windows.replayGuard(of: keys, span: 1000)).outcome(sealed, now: now)
    }
    #expect(open(old, now: 0) == .success([1]))
    #expect(open(both, now: 1) == .failure(.replayed))
    #expect(windows.count == 2)
    // No location names the key any more: the window stays until nothing in it could be a replay.
    windows.dropEnded(now: 1000)
    #expect(windows.count == 1 && open(old, now: 1000) == .failure(.replayed))
    do {
      let used = windows.replayGuard(of: old, span: 1000)
      windows.dropEnded(now: 1001)
      #expect(windows.count == 1)
      withExtendedLifetime(used) {}
    }
    windows.dropEnded(now: 1001)
    #expect(windows.count == 0)
  }

  private func pair(_ suite: EnvelopeSuite, _ octet: UInt8) throws -> EnvelopeKeys.Pair {
    try #require(
      EnvelopeKeys.Pair(
        suite, cipherKey: SecretBytes([UInt8](repeating: octet, count: suite.cipher.keyCount)), macKey: nil))
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

  private func seal(_ envelope: MessageEnvelope, _ plain: [UInt8], now: UInt64) throws -> [UInt8] {
    try plain.withUnsafeBytes { raw in
      try Result { () throws(SealingError) in try envelope.seal(raw, now: now).octets }.get()
    }
  }

  private func outcome(_ envelope: MessageEnvelope, _ body: [UInt8], now: UInt64) -> Result<[UInt8], EnvelopeError> {
    body.withUnsafeBytes { raw in Result { () throws(EnvelopeError) in try envelope.open(raw, now: now).octets } }
  }

  @Test(arguments: [(Cipher.aes256CBC, "hmac-sha256 payload"), (.aes256GCM, "none"), (.aes256GCM, "hmac-sha1 payload")])
  func `an answer of ours is no request`(cipher: Cipher, mac: String) throws {
    let keys = try #require(Parts.keys(Parts.suite(cipher, mac)))
    let window = ReplayWindow()
    let envelope = MessageEnvelope(keys, replays: ReplayGuard(window, span: 1000), maxSize: 1000)
    let answer = try seal(envelope, [1, 2, 3], now: 0)
    #expect(outcome(envelope, answer, now: 1) == .failure(.replayed))
    // Of another worker, and after a reload: who shares the window.
    let other = MessageEnvelope(keys, replays: ReplayGuard(window, span: 1000), maxSize: 1000)
    #expect(outcome(other, answer, now: 1000) == .failure(.replayed))
    #expect(outcome(envelope, try Sealer(requests: keys).sealed([1, 2, 3]), now: 2) == .success([1, 2, 3]))
    // Without a window nobody remembers.
    #expect(outcome(MessageEnvelope(keys, replays: nil, maxSize: 1000), answer, now: 1) == .success([1, 2, 3]))
  }

  @Test func `what can't be remembered is not sealed`() throws {
    let keys = try #require(Parts.keys(Parts.suite(.aes256GCM, "none")))
    let envelope = MessageEnvelope(keys, replays: ReplayGuard(ReplayWindow(limit: 2), span: 1000), maxSize: 1000)
    for _ in 0..<2 { _ = try seal(envelope, [1], now: 0) }
    #expect(throws: SealingError.windowFull) { try seal(envelope, [1], now: 1000) }
    _ = try seal(envelope, [1], now: 1001)
  }

  @Test func `answers that open as no request take no room`() throws {
    let keys = try #require(Parts.keys(Parts.suite(.aes256CBC, "hmac-sha256 fields a")))
    let envelope = MessageEnvelope(keys, replays: ReplayGuard(ReplayWindow(limit: 1), span: 1000), maxSize: 1000)
    for _ in 0..<3 {
      let answer = try seal(envelope, Array(#"{"a":1}"#.utf8), now: 0)
      #expect(outcome(envelope, answer, now: 0) == .failure(.forged))
    }
  }
}
