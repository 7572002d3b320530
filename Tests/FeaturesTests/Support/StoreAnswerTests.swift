@testable import Features
@testable import Forward
import Redis
import TestSupport
import Testing
@testable import Traffic

@Suite struct `Answers of a shared store` {
  private static func numbers(_ numbers: Int64...) -> RedisReply { .list(numbers.map { .number($0) }) }
  private static func text(_ text: String) -> RedisReply { .text(Array(text.utf8)) }

  /// What no command of ours has for an answer.
  private static let odd: [RedisReply] = [
    text("QUEUED"), text("O"), text(""), .list([]), .list([.none]), .number(-1), .number(.min), .number(.max),
    .list([.list([.number(0)])]), numbers(-5, 5), numbers(.min, .min),
  ]

  @Test func `a rate has an excess for each key, or the key that refuses`() {
    let bursts = [3000, 0]
    func read(_ reply: RedisReply) -> RateAnswer? { RateAnswer(reply, bursts: bursts) }
    #expect(read(Self.numbers(0, 3000, 0)) == .allowed([3000, 0]))
    #expect(read(Self.numbers(1, 3001)) == .refused(by: 0, excess: 3001))
    #expect(read(Self.numbers(2, 1)) == .refused(by: 1, excess: 1))
    for wrong in Self.odd + [
      Self.numbers(0), Self.numbers(0, 1), Self.numbers(0, 1, 0, 0), Self.numbers(0, 3001, 0), Self.numbers(0, -1, 0),
      Self.numbers(1, 3000), Self.numbers(1, -1500), Self.numbers(3, 5000), Self.numbers(1, 3001, 0), .number(0),
      .list([.number(0), Self.text("nan"), .number(0)]), .list([Self.text("0"), .number(0), .number(0)]), .none,
    ] { #expect(read(wrong) == nil, "\(wrong)") }
  }

  @Test func `a count, an attempt and a nonce have their own answers alone`() {
    #expect(TakeAnswer(.number(1)) == .counted && TakeAnswer(.number(0)) == .full)
    #expect(AttemptAnswer(.number(0)) == .admitted && AttemptAnswer(.number(9)) == .tooMany(wait: 9))
    #expect(NoveltyAnswer(Self.text("OK")) == .new && NoveltyAnswer(.none) == .seen)
    for wrong in Self.odd {
      #expect(TakeAnswer(wrong) == nil && NoveltyAnswer(wrong) == nil, "\(wrong)")
      if wrong != .number(.max) { #expect(AttemptAnswer(wrong) == nil, "\(wrong)") }
    }
  }

  @Test func `a change of pairs has the answers of its kind alone`() {
    let words = ["done", "exists", "absent", "busy", "gone", ""]
    func read(_ kind: SharedKeyvalChange.Kind) -> [Bool] {
      words.map { SharedKeyvalChange(kind: kind).outcome(Self.text($0)) != nil }
    }
    #expect(read(.add) == [true, true, false, true, false, false])
    #expect(read(.set) == [true, false, true, true, false, false])
    #expect(read(.remove) == [true, false, true, true, false, false])
    #expect(read(.clear) == [true, false, false, false, false, false])
    for wrong in Self.odd { #expect(SharedKeyvalChange(kind: .add).outcome(wrong) == nil) }
  }

  private static func part(
    _ now: Int64, cursor: String = "0", digest: String = "", _ fields: String...
  ) -> SharedKeyvalPart? {
    SharedKeyvalPart(.list([.number(now), text(cursor), text(digest), .list(fields.map { text($0) })]))
  }

  @Test func `a piece of pairs leaves out what no script has written, and is none if it is no piece`() {
    let part = Self.part(
      5, "", "7", "k", "9:v", "a", "0:B:x", "old", "4:C", "no time", "x", "sign", "-9:v", "word", "x:v", "big",
      "99999999999999999999:v")
    let whole: [SharedKeyvalPart.Pair] = [
      SharedKeyvalPart.Pair(key: [0x6B], value: [0x76], life: 4),
      SharedKeyvalPart.Pair(key: [0x61], value: Array("B:x".utf8), life: nil),
    ]
    #expect(part?.next == nil && part?.pairs == whole)
    let digest = String(repeating: "a", count: 40)
    #expect(Self.part(5, cursor: "0", digest: digest)?.next == .init(cursor: [0x30], digest: Array(digest.utf8)))
    #expect(Self.part(5, cursor: "17")?.next == .init(cursor: Array("17".utf8), digest: []))
    for wrong in [
      Self.part(-5), Self.part(5, cursor: ""), Self.part(5, cursor: "x"), Self.part(5, digest: "aa"),
      Self.part(5, cursor: String(repeating: "1", count: 21)), Self.part(5, "a"),
    ] { #expect(wrong == nil) }
    for wrong in Self.odd { #expect(SharedKeyvalPart(wrong) == nil && SharedKeyvalState(wrong) == nil, "\(wrong)") }
  }

  @Test func `a hash of pairs is missing, known, changed or damaged`() {
    func state(_ items: RedisReply...) -> SharedKeyvalState? { SharedKeyvalState(.list(items)) }
    #expect(state(.number(0)) == SharedKeyvalState.none && state(.number(1)) == .same && state(.number(3)) == .damaged)
    #expect(state(.number(2), Self.text("17")) == .changed(Array("17".utf8)))
    for wrong in [
      state(), state(.number(4)), state(.number(2)), state(.number(2), Self.text("")),
      state(.number(2), Self.text("x")),
      state(.number(2), .number(7)), state(.number(0), .number(0)),
    ] { #expect(wrong == nil) }
  }

  /// What the fuzzer starts from and what it once found: every reply in it is read as every answer, or as none.
  @Test(arguments: FuzzInput.all(of: "FuzzRedis")) func `no reply of the fuzzer ends the process`(input: FuzzInput) {
    var reader = RedisReader()
    input.text.withUnsafeBytes { reader.append($0) }
    while let reply = try? reader.next() {
      _ = (RateAnswer(reply, bursts: [1000]), TakeAnswer(reply), AttemptAnswer(reply), NoveltyAnswer(reply))
      _ = (StoreTickets.keys(reply), SharedKeyvalState(reply), SharedKeyvalPart(reply))
      _ = SharedKeyvalChange(kind: .add).outcome(reply)
    }
  }
}
