import TestSupport
import Testing

@Suite struct `The wait of a test` {
  @Test func `asks once more when a question has taken longer than the bound`() async throws {
    var questions = 0
    let answer = try await waiting(for: "an answer", within: .milliseconds(1)) {
      questions += 1
      if questions == 1 { try await Task.sleep(for: .milliseconds(2)) }
      return questions > 1 ? questions : nil
    }
    #expect(answer == 2)
  }

  @Test func `ends when the last question has no answer`() async {
    await #expect(throws: TimedOut.self) { try await waiting(for: "nothing", within: .zero) { nil as Int? } }
  }
}
