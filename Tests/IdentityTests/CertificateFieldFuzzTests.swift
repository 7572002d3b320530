import Crypto
import TestSupport
import Testing

@testable import Identity

/// What the fuzzer starts from and what it once found, read again by every test run.
@Suite struct `Fields of fronts that were fuzzed` {
  @Test(arguments: FuzzInput.all(of: "FuzzCertificateField"))
  func `a value has certificates within the bounds, or a reason`(input: FuzzInput) {
    let parts = input.text.split(separator: 0, maxSplits: 1, omittingEmptySubsequences: false).map { Array($0) }
    for format in CertificateField.Format.allCases {
      let field = CertificateField(name: "Client-Cert", format: format)
      let value = parts.first ?? []
      let outcome = value.withUnsafeBytes { value in
        Result { () throws(CertificateFieldError) in try field.certificates(value, chain: nil) }
      }
      switch outcome {
      case .success(let certificates):
        #expect((1...CertificateField.mostCertificates).contains(certificates.count))
        // The first byte names the format in the order of the cases.
        #expect(input.bytes.first.map { Int($0) % 4 } == CertificateField.Format.allCases.firstIndex(of: format))
      case .failure(let error): #expect(!error.reason.isEmpty)
      }
    }
  }

  @Test func `there is something to replay`() { #expect(FuzzInput.all(of: "FuzzCertificateField").count > 5) }
}
