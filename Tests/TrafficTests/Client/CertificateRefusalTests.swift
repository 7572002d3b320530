import Crypto
import TLS
import TestSupport
import Testing
@testable import Traffic

/// What is told of clients whose certificates don't verify.
@Suite struct `Refusals of clients' certificates` {
  private let leaf: Certificate
  init() throws {
    leaf = try CertificateBuilder(commonName: "truck", .leaf([.clientAuth])).selfSigned(key: .generate()).certificate
  }

  private var expired: ClientVerdict { .refused(leaf, code: 10, reason: "certificate has expired") }

  @Test func `from the tenth on they are a problem, with the reason and the CA that most have`() throws {
    let refusals = CertificateRefusals()
    for _ in 0..<9 { refusals.note(expired, at: 100) }
    #expect(refusals.problems(at: 100).isEmpty)
    refusals.note(.refused(leaf, code: 23, reason: "certificate revoked"), at: 100)
    for _ in 0..<10 { refusals.note(.pinned(leaf), at: 100) }
    let problem = try #require(refusals.problems(at: 100).first)
    #expect(problem.severity == .warning, "a stranger can cause it")
    #expect(
      problem.text
        == "Client certificates did not verify in 10 of 20 handshakes (50 %) of the last 10 minutes, at least 9 of them for "
        + "(10:certificate has expired) of certificates issued by \"CN=truck\"")
    #expect(refusals.problems(at: 700).isEmpty)
  }

  @Test func `fewer than a tenth are none, and neither is who shows no certificate`() {
    let refusals = CertificateRefusals()
    for _ in 0..<10 { refusals.note(expired, at: 100) }
    for _ in 0..<91 { refusals.note(.pinned(leaf), at: 100) }
    #expect(refusals.problems(at: 100).isEmpty)
    refusals.note(.absent, at: 100)
    #expect(refusals.problems(at: 100).isEmpty)
  }
}
