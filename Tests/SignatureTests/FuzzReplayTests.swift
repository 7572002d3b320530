import TestSupport
import Testing

@testable import Signature

/// What the fuzzer starts from and what it once found, read again by every test run.
@Suite struct `Fuzzed signatures` {
  @Test(arguments: FuzzInput.all(of: "FuzzSignature"))
  func `are refused, or read as what they are written as`(input: FuzzInput) throws {
    guard let entries = try? FieldParser.dictionary(input.text) else {
      #expect(input.name.contains("bad"))
      return
    }
    #expect(!input.name.contains("bad"))
    var text: [UInt8] = []
    FieldWriter.write(entries, to: &text)
    #expect(try FieldParser.dictionary(text) == entries)
  }

  @Test func `there is something to replay`() { #expect(FuzzInput.all(of: "FuzzSignature").count > 5) }
}
