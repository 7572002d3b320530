import Testing
@testable import Observability

@Suite struct `A length of time in words` {
  @Test(arguments: [
    (Int64(0), "0 seconds"), (1, "1 second"), (59, "59 seconds"), (60, "1 minute"), (61, "1 minute and 1 second"),
    (3_599, "59 minutes and 59 seconds"), (3_600, "1 hour"), (3_659, "1 hour"), (7_260, "2 hours and 1 minute"),
    (86_400, "1 day"), (777_599, "8 days and 23 hours"), (86_401, "1 day"), (-5, "0 seconds"),
  ])
  func `it has two units at most`(seconds: Int64, words: String) {
    #expect(DurationWords.of(seconds: seconds) == words)
  }

  @Test func `no length is too long`() { #expect(DurationWords.of(seconds: .max).hasSuffix(" hours")) }
}
