import COpenSSL
import Testing

@testable import Crypto

@Suite struct `OpenSSL's words` {
  /// What `check`, `ca`, `pin` and `probe` print about a file.
  @Test func `of damaged bytes are a plain sentence, with OpenSSL's first own reason behind it`() {
    let text =
      #expect(throws: CryptoError.self) {
        try [UInt8]([0x30, 3, 2, 1]).withUnsafeBytes { try PrivateKey(der: $0) }
      }?.description ?? ""
    #expect(text.contains("its bytes are damaged, or hold something else; OpenSSL: "), "\(text)")
    for echo in ["nested asn1", "No supported data", "unsupported"] { #expect(!text.contains(echo), "\(text)") }
    #expect(OpenSSLError.drain().codes.isEmpty)
  }

  @Test func `that nobody translated stay as they are, and errors of the system have its words`() {
    #expect(BIO_new_file("/nowhere/at/all", "r") == nil)
    let told = OpenSSLError.drain().description
    #expect(told.hasPrefix("No such file or directory") && !told.contains("error 2"), "\(told)")
    #expect(OpenSSLError.drain().description == "no reason given by OpenSSL")
  }

  @Test func `of an alert have the name that RFC 8446 gives it, and what the peer means`() {
    #expect(OpenSSLMeaning.name(ofAlert: 116) == "certificate required")
    #expect(OpenSSLMeaning.name(ofAlert: 48) == "unknown CA")
    #expect(OpenSSLMeaning.name(ofAlert: 199) == "199")
    #expect(OpenSSLMeaning.of(alert: 48) == "the peer does not trust the CA of our certificate")
    // RFC 8446 §6.2 lists these errors; a user must not be left with a number.
    for number: Int32 in [
      10, 20, 22, 40, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 70, 71, 80, 86, 90, 109, 110, 112, 113, 116, 120,
    ] {
      #expect(OpenSSLMeaning.of(alert: number) != nil, "\(number)")
    }
  }

  /// The DER of a response with this status alone (RFC 6960 §4.2.1).
  @Test(arguments: [(6 as UInt8, "unauthorized: it does not answer for"), (3, "trylater: it can't answer now")])
  func `of a responder without an answer have a plain sentence behind them`(_ sample: (status: UInt8, words: String))
    throws
  {
    let known = try Fixtures.shared.get()
    let request = OCSPRequest(of: known.client.certificate, issuedBy: known.client.certificate)
    let fault = #expect(throws: OCSPError.self) { try request.judge([0x30, 3, 0x0A, 1, sample.status], now: 0) }
    #expect(
      fault.map { "\($0)" }?.contains("the responder answers: \(sample.words)") == true, "\(String(describing: fault))")
  }

  @Test func `of a certificate's fault stay first, as nginx writes them`() {
    #expect(
      OpenSSLMeaning.text(verification: 20)
        == "20:unable to get local issuer certificate: no trusted CA issued it, or an intermediate certificate was not sent"
    )
    #expect(OpenSSLMeaning.text(verification: 10) == "10:certificate has expired")
  }
}
