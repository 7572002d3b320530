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

@Suite struct `Fuzzed tokens` {
  /// As FuzzToken has them: the first byte says what the rest is.
  @Test(arguments: FuzzInput.all(of: "FuzzToken")) func `are key sets and tokens that nobody has signed`(
    input: FuzzInput
  ) throws {
    let rest = input.text, issuer = try TokenIssuer()
    let keys = try WebKeySet(Array(issuer.set.utf8))
    _ = try? WebKeySet(rest)
    if let token = try? WebToken(rest) {
      #expect(throws: TokenFault.self) { try TokenPolicy().verify(token, by: keys) }
    }
    let lines = rest.split(separator: 0x0A, maxSplits: 1).map { String(decoding: $0, as: UTF8.self) }
    guard lines.count == 2 else { return }
    var policy = TokenPolicy()
    policy.allowsUnbound = true
    let token = Array(issuer.token(lines[1], header: lines[0]).utf8)
    #expect((try? policy.verify(WebToken(token), by: keys)) != nil || input.name.contains("crit"))
  }

  @Test func `there is something to replay`() { #expect(FuzzInput.all(of: "FuzzToken").count > 5) }
}
