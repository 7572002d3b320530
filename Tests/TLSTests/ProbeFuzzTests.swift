import TestSupport
import Testing

@testable import TLS

/// What the fuzzer starts from and what it once found, read again by every test run.
@Suite struct `Answers to a probe that were fuzzed` {
  @Test(arguments: FuzzInput.all(of: "FuzzProbeHTTP2")) func `a status has three digits`(input: FuzzInput) {
    let answer = ProbeHTTP2.Answer(input.bytes)
    let good: [String: Int?] = [
      "Corpus/ok": 200, "Corpus/body": 400, "Corpus/padded": 500, "Corpus/huffman": 302, "Corpus/literal": 403,
      "Corpus/informational": 103, "Corpus/resize": 400, "Corpus/graceful": 200,
    ]
    #expect(answer.status == good[input.name, default: nil])
    #expect(answer.isAnswered || answer.status == nil)
    for count in 0..<input.bytes.count {
      #expect(!ProbeHTTP2.Answer(Array(input.bytes.prefix(count))).isAnswered || answer.isAnswered)
    }
  }
}
