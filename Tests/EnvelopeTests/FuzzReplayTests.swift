import Bytes
import TestSupport
import Testing

@testable import Envelope

/// What the fuzzer starts from and what it once found, read again by every test run: by every suite, whatever its first
/// byte says.
@Suite struct `Fuzzed envelopes` {
  @Test(arguments: FuzzInput.all(of: "FuzzEnvelope"))
  func `are refused, or open to what was sealed`(input: FuzzInput) throws {
    let bytes = input.text
    var opened = 0
    for suite in Parts.suites {
      let keys = try #require(Parts.keys(suite))
      if case .success(let text) = Opener(keys).outcome(bytes) {
        opened += 1
        #expect(text == Array(Parts.plain.utf8))
      }
      let answers = try #require(Parts.keys(suite.ofResponses))
      #expect(Opener(answers).outcome(try Sealer(responses: keys).sealed(bytes)) == .success(bytes))
    }
    let isWhole = ["cbc128", "cbc256", "gcm", "gcm-mac", "escaped"].contains { input.name == "Corpus/\($0)" }
    #expect((opened > 0) == isWhole)
  }

  @Test func `there is something to replay`() { #expect(FuzzInput.all(of: "FuzzEnvelope").count > 5) }
}
