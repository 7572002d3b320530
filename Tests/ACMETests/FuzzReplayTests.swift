import Crypto
import JSON
import TestSupport
import Testing

@testable import ACME

/// What the fuzzer starts from and what it once found, read again by every test run.
@Suite struct `Fuzz inputs of ACME` {
  @Test func `answers once fuzzed end an order, and lead to no other server and no other name`() throws {
    let inputs = FuzzInput.all(of: "FuzzACME")
    #expect(inputs.count > 3)
    let key = try PrivateKey.generate()
    let directory = try #require(ACMEURL("https://ca.test/dir"))
    for input in inputs {
      let answers = input.bytes.split(separator: 0xFF, maxSplits: 64, omittingEmptySubsequences: false).map(Array.init)
      var request = IssuanceRequest(
        directory: directory, names: [.dns("a.test")], method: .http01, accountKey: try JSONWebKey(key),
        certificateKey: key)
      request.acceptsTerms = true
      var issuance = Issuance(request)
      var event = Issuance.Event.begin
      var at = 0
      var hasEnded = false
      for _ in 0..<10_000 where !hasEnded {
        switch issuance.take(event, at: 1_700_000_000) {
        case .get(let url), .post(let url, _, _):
          #expect(url.hasOrigin(of: directory))
          let bytes = at < answers.count ? answers[at] : answers.last ?? []
          event = .response(
            ACMEResponse(
              status: [200, 201, 400, 429, 500, 302][Int(bytes.first ?? 0) % 6], location: "https://ca.test/1",
              body: Array(bytes.dropFirst(2))))
          at += 1
        case .publish(let published):
          #expect(published.allSatisfy { $0.identifier == .dns("a.test") })
          event = .published
        case .wait: event = .waited
        case .done, .failed: hasEnded = true
        }
      }
      #expect(hasEnded, "\(input)")
    }
  }
}
