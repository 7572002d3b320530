import TestSupport
import Testing

@testable import TLS

/// What the fuzzer starts from and what it once found, read again by every test run.
@Suite struct `Server names that were fuzzed` {
  @Test(arguments: FuzzInput.all(of: "FuzzServerName")) func `a name that is taken could be a host's`(input: FuzzInput)
  {
    let name = input.text.withUnsafeBufferPointer { ServerNameExtension.parse($0) }
    let isGood = ["Corpus/name", "Corpus/case"].contains(input.name)
    #expect((name == Array("www.example.com".utf8)) == isGood)
    #expect(isGood || name == nil)
  }
}
