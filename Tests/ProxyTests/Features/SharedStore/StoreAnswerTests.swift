import Redis
import TestSupport
import Testing

@testable import Proxy

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
    let words = ["done", "exists", "absent", "gone", ""]
    func read(_ kind: SharedKeyvalChange.Kind) -> [Bool] {
      words.map { SharedKeyvalChange(kind: kind).outcome(Self.text($0)) != nil }
    }
    #expect(read(.add) == [true, true, false, false, false] && read(.set) == [true, false, true, false, false])
    #expect(read(.remove) == [true, false, true, false, false] && read(.clear) == [true, false, false, false, false])
    for wrong in Self.odd { #expect(SharedKeyvalChange(kind: .add).outcome(wrong) == nil) }
  }

  @Test func `pairs with a negative time are none`() {
    func pairs(_ count: String, _ now: Int64, _ kept: String) -> SharedPairs? {
      SharedPairs(.list([.number(2), Self.text(count), .number(now), .list([Self.text("k"), Self.text(kept)])]))
    }
    #expect(pairs("1", 5, "9:v") == .pairs(count: [0x31], [.init(key: [0x6B], value: [0x76], life: 4)]))
    for wrong in [pairs("1", -5, "9:v"), pairs("1", 5, "-9:v"), pairs("", 5, "9:v"), pairs("x", 5, "9:v")] {
      #expect(wrong == nil)
    }
  }

  /// What the fuzzer starts from and what it once found: every reply in it is read as every answer, or as none.
  @Test(arguments: FuzzInput.all(of: "FuzzRedis")) func `no reply of the fuzzer ends the process`(input: FuzzInput) {
    var reader = RedisReader()
    input.text.withUnsafeBytes { reader.append($0) }
    while let reply = try? reader.next() {
      _ = (RateAnswer(reply, bursts: [1000]), TakeAnswer(reply), AttemptAnswer(reply), NoveltyAnswer(reply))
      _ = (StoreTickets.keys(reply), SharedPairs(reply), SharedKeyvalChange(kind: .add).outcome(reply))
    }
  }
}
