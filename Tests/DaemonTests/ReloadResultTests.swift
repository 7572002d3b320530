@testable import Loading
import Observability
import Testing

@testable import Daemon

@Suite struct `Results of starts and reloads` {
  @Test func `a result survives its line, whatever the words`() throws {
    for words in ["", "Serving: generation 2", "two words  and  more", "a\nb"] {
      let result = ReloadResult(number: 3, state: .refused, words: words)
      let read = try #require(ReloadResult(result.line))
      #expect(read.number == 3 && read.state == .refused)
      #expect(read.words == words.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "; "))
    }
    for line in ["", "x", "1", "1 done", "x done y", "1 gone y", "99999999999999999999 done y"] {
      #expect(ReloadResult(line) == nil, "\(line)")
    }
  }

  @Test func `a start waits only for DNS that can't be asked`() throws {
    var pauses = 0
    let names = Refusal([Diagnostic(.error, at: nil, "host not found")], cause: .names(["a", "b"]))
    let value = try NameWait.until(
      { () throws(Refusal) -> Int in
        if pauses < 3 { throw names }
        return 7
      }, pause: { pauses += 1 }, cannotAsk: { $0 == "b" })
    #expect(value == 7 && pauses == 3)
    #expect(throws: Refusal.self) {
      try NameWait.until(
        { () throws(Refusal) -> Int in throw names }, pause: { pauses += 1 }, cannotAsk: { _ in false })
    }
    #expect(throws: Refusal.self) {
      try NameWait.until(
        { () throws(Refusal) -> Int in throw Refusal([]) }, pause: { pauses += 1 }, cannotAsk: { _ in true })
    }
    #expect(pauses == 3)
  }

  @Test func `the exit status says whether another start can succeed`() {
    #expect(Refusal([]).cause.exitStatus == 78)
    #expect(Refusal([], cause: .environment).cause.exitStatus == 1)
    #expect(Refusal([], cause: .names([])).cause.exitStatus == 1)
  }
}
