import CertificateFacts
import TestSupport
import Testing

/// What the fuzzer of certificates starts from and what it once found, read again by every test run.
@Suite struct `Certificates with broken fields` {
  @Test func `go through each variable, rule, log and probe`() {
    let inputs = FuzzInput.all(of: "FuzzCertificateFacts")
    var parsed = 0
    for input in inputs {
      guard let facts = CertificateFacts(input.bytes) else { continue }
      parsed += 1
      #expect(throws: Never.self, "\(input)") { try facts.check() }
    }
    #expect(inputs.count > 15 && parsed > 12)
  }
}
