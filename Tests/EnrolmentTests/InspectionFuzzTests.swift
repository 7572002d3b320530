import Bytes
import Crypto
import Enrolment
import TestSupport
import Testing

/// What the fuzzer starts from and what it once found, read again by every test run.
@Suite struct `Fuzzed files for the authority` {
  @Test(arguments: FuzzInput.all(of: "FuzzInspection"))
  func `are told without a control character, and only a signed request is certified`(input: FuzzInput) {
    let bytes = SecretBytes(input.bytes)
    if let objects = try? InspectedObject.all(in: bytes, passwords: []) {
      #expect(!Inspection(objects, at: 1_800_000_000).text.utf8.contains { $0 < 0x20 && $0 != 0x0A || $0 == 0x7F })
    } else {
      Issue.record("\(input.name) can't be read")
    }
    let wanted = (try? SigningRequest.parse(bytes)).flatMap { try? RequestedCertificate($0, .client) }
    #expect((wanted != nil) == ["Corpus/request.pem", "Corpus/request.der"].contains(input.name))
    #expect(wanted?.profile.names.count ?? 4 == 4)
  }

  @Test func `there is something to replay`() { #expect(FuzzInput.all(of: "FuzzInspection").count > 5) }

  @Test func `direction marks and controls are visible`() {
    #expect(InspectionPage.visible("a\u{202E}b\u{1B}c") == "a\\u{202E}b\\x1Bc")
  }
}
