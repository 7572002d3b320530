import Bytes
import Testing

@testable import Patterns

/// Matches once with fresh memory and gives the captures as text.
func matched(
  _ pattern: String, _ subject: String, caseless: Bool = false
) throws -> (outcome: MatchOutcome, groups: [String?]) {
  let expression = try RegularExpression(pattern, caseless: caseless)
  var captures = Captures()
  let bytes = Array(subject.utf8)
  return bytes.withUnsafeBytes { raw in
    let outcome = expression.match(raw, scratch: RegularExpression.Scratch(), into: &captures)
    return (outcome, (0..<captures.count).map { captures[$0].map { raw[$0].text } })
  }
}

@Suite struct `Regular expressions` {
  @Test func `a match gives its groups, and nil for one that took no part`() throws {
    let (outcome, groups) = try matched("^/(a|(b))/(.*)$", "/a/rest")
    #expect(outcome == .match)
    #expect(groups == ["/a/rest", "a", nil, "rest"])
  }

  @Test func `trailing groups that took no part are there, as nil`() throws {
    #expect(try matched("(a)|(b)|(c)", "a").groups == ["a", "a", nil, nil])
  }

  @Test func `no match empties what an earlier match left`() throws {
    let expression = try RegularExpression("(a)")
    let scratch = RegularExpression.Scratch()
    var captures = Captures()
    #expect([UInt8]("xa".utf8).withUnsafeBytes { expression.match($0, scratch: scratch, into: &captures) } == .match)
    #expect(captures.count == 2)
    #expect(captures[1] == ByteRange(start: 1, count: 1))
    #expect([UInt8]("x".utf8).withUnsafeBytes { expression.match($0, scratch: scratch, into: &captures) } == .noMatch)
    #expect(captures.count == 0)
    #expect(captures[0] == nil)
  }

  @Test func `caseless folds letters, and is off unless asked for`() throws {
    #expect(try matched("\\.PHP$", "/x.php").outcome == .noMatch)
    #expect(try matched("\\.PHP$", "/x.php", caseless: true).outcome == .match)
  }

  @Test func `an empty subject without storage can match`() throws {
    let expression = try RegularExpression("^$")
    var captures = Captures()
    let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
    #expect(expression.match(nothing, scratch: RegularExpression.Scratch(), into: &captures) == .match)
    #expect(captures[0] == ByteRange(start: 0, count: 0))
  }

  @Test func `bytes that are no UTF-8 are matched as bytes`() throws {
    let expression = try RegularExpression("^.\\xff(.)$")
    var captures = Captures()
    let outcome = [UInt8]([0x80, 0xFF, 0xC0]).withUnsafeBytes {
      expression.match($0, scratch: RegularExpression.Scratch(), into: &captures)
    }
    #expect(outcome == .match)
    #expect(captures[1] == ByteRange(start: 2, count: 1))
  }

  @Test func `a subject that can't be judged under UTF is no answer, not a refusal to match`() throws {
    let expression = try RegularExpression("(*UTF)^a")
    var captures = Captures()
    let outcome = [UInt8]([0x61, 0xFF]).withUnsafeBytes {
      expression.match($0, scratch: RegularExpression.Scratch(), into: &captures)
    }
    #expect(outcome == .limit)
  }

  @Test func `named groups are listed with their numbers, in order`() throws {
    let expression = try RegularExpression("^(?<zone>\\w+)\\.(?P<app>\\w+)\\.(x)$")
    #expect(expression.captureCount == 3)
    #expect(expression.names.map(\.name) == ["zone", "app"])
    #expect(expression.names.map(\.number) == [1, 2])
  }

  @Test func `more groups than usual widen the scratch`() throws {
    let scratch = RegularExpression.Scratch()
    var captures = Captures()
    for count in [1, 40, 3] {
      let expression = try RegularExpression(String(repeating: "(a)", count: count))
      let subject = [UInt8](repeating: UInt8(ascii: "a"), count: count)
      #expect(subject.withUnsafeBytes { expression.match($0, scratch: scratch, into: &captures) } == .match)
      #expect(captures[count] == ByteRange(start: count - 1, count: 1))
    }
  }

  @Test(arguments: [("a(b", 3), ("[z-a]", 3), ("*a", 0), ("a\\C", 3)])
  func `a bad pattern names the offset`(pattern: String, offset: Int) {
    let error = #expect(throws: PatternError.self) { try RegularExpression(pattern) }
    #expect(error?.offset == offset)
    #expect(error?.message.isEmpty == false)
  }

  @Test func `one compiled pattern serves many tasks at once`() async throws {
    let expression = try RegularExpression("^/user/(\\d+)/(?<rest>.*)$")
    let right = await withTaskGroup(of: Int.self) { group in
      for task in 0..<4 {
        group.addTask {
          let scratch = RegularExpression.Scratch()
          var captures = Captures()
          return (0..<2_000).count { turn in
            let subject = "/user/\(turn)/of-\(task)"
            return Array(subject.utf8).withUnsafeBytes { raw in
              expression.match(raw, scratch: scratch, into: &captures) == .match
                && captures[1].map { raw[$0].text } == "\(turn)" && captures[2].map { raw[$0].text } == "of-\(task)"
            }
          }
        }
      }
      return await group.reduce(0, +)
    }
    #expect(right == 8_000)
  }
}

@Suite struct `The bound on a match` {
  @Test(arguments: ["", "(*NO_JIT)"])
  func `a pattern that explodes ends as a limit, compiled or interpreted`(mode: String) throws {
    let subject = String(repeating: "a", count: 64) + "!"
    #expect(try matched(mode + "^(a+)+$", subject).outcome == .limit)
    #expect(try matched(mode + "(a|aa)+$", subject).outcome == .limit)
  }

  @Test(arguments: ["", "(*NO_JIT)"])
  func `deep back-tracking ends as a limit, not as a crash`(mode: String) throws {
    #expect(try matched(mode + "^(?:(a)|b(?R)?)*+c", String(repeating: "ab", count: 400_000)).outcome != .match)
  }

  @Test(arguments: ["", "(*NO_JIT)"])
  func `work just under the limit of one start, at each of many starts, is a limit too`(mode: String) throws {
    // PCRE2's own limit never bites here: it lets 32 million steps pass and says noMatch after a second.
    #expect(try matched(mode + "(?:a|b)+?[cd]", String(repeating: "a", count: 8_000)).outcome == .limit)
    #expect(try matched(mode + "(?:a|b)+?[cd]", String(repeating: "a", count: 100)).outcome == .noMatch)
  }

  @Test func `the budget is shared among starting places, and whole for an anchored pattern`() {
    #expect(MatchBudget(isAnchored: true).steps(subjectLength: 1 << 20) == 100_000)
    #expect(MatchBudget(isAnchored: false).steps(subjectLength: 0) == 100_000)
    #expect(MatchBudget(isAnchored: false).steps(subjectLength: 100) == 100_000)
    #expect(MatchBudget(isAnchored: false).steps(subjectLength: 1_000) == 10_000)
    #expect(MatchBudget(isAnchored: false).steps(subjectLength: 1 << 23) == 1_000)
  }

  @Test(arguments: ["^/static/(.+\\.(?:png|css))$", "\\.(?:php|phtml)(?:/|$)", "^/(?<a>[^/]+)/(?<b>[^/]+)/?"])
  func `honest patterns stay far from the limit on long paths`(pattern: String) throws {
    let path = "/static/" + String(repeating: "segment/", count: 1_000) + "x.png"
    #expect(try matched(pattern, path).outcome != .limit)
    #expect(try matched("(*NO_JIT)" + pattern, path).outcome != .limit)
  }
}
