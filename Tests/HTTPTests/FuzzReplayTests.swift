import HTTP
import TestSupport
import Testing

/// What the fuzzers start from and what they once found, read again by every test run. As in the fuzz targets, the
/// first byte of a file is a choice and the rest is input.
@Suite struct `Fuzz inputs` {
  @Test(arguments: FuzzInput.all(of: "FuzzRequestHead"))
  func `a request once fuzzed reads the same in pieces`(input: FuzzInput) {
    for limits in [HeadLimits(), HeadLimits(lineBytes: 40, headBytes: 120, fields: 5, ignoreInvalidNames: false)] {
      let ended = input.text + [0x0A]
      let whole = requestInPieces(ended, ends: [ended.count], limits: limits)
      let pieces = requestInPieces(ended, ends: Array(0...ended.count), limits: limits)
      #expect(whole == pieces || refusal(whole) != nil && refusal(pieces) != nil)
    }
  }

  @Test(arguments: FuzzInput.all(of: "FuzzResponseHead"))
  func `a response once fuzzed reads the same in pieces`(input: FuzzInput) {
    for method in [Method.get, .head] {
      let ended = input.text + [0x0A]
      let whole = responseInPieces(ended, ends: [ended.count], to: method)
      let pieces = responseInPieces(ended, ends: Array(0...ended.count), to: method)
      #expect(whole == pieces || refusal(whole) != nil && refusal(pieces) != nil)
    }
  }

  @Test(arguments: FuzzInput.all(of: "FuzzChunked"))
  func `a chunked body once fuzzed reads the same in pieces`(input: FuzzInput) {
    let whole = body(input.text), pieces = body(input.text, ends: Array(0...input.text.count))
    #expect(whole.data == pieces.data)
    #expect(whole.result == pieces.result)
    #expect(whole.trailers == pieces.trailers)
  }

  @Test func `there is something to replay`() {
    for target in ["FuzzRequestHead", "FuzzResponseHead", "FuzzChunked"] {
      #expect(FuzzInput.all(of: target).count > 3)
    }
  }
}
