import ConfigurationSupport
import Crypto
@testable import Features
import Identity
import TLS
import Testing
@testable import Traffic

private let today = "listen 443 ssl; ssl_certificate a.p12; ssl_client_certificate ca.cer; ssl_verify_client on;\n"

private func server(_ lines: String) -> LoadedText { LoadedText("http { server {\n\(lines)\nreturn 204; } }") }
private func stream(_ lines: String) -> LoadedText { LoadedText("stream { server {\n\(lines)\nreturn x; } }") }

@Suite struct `The candidate of a server's trust, as configured` {
  static let faults: [(lines: String, problem: String)] = [
    (
      "listen 443 ssl; ssl_certificate a.p12;\nssl_verify_candidate { ssl_client_certificate b.cer; }",
      "3:1 \"ssl_verify_candidate\" needs client certificates, but the server at /etc/x.conf:1:8 says ssl_verify_client off | ssl_verify_client on, or optional; the candidate says what is to be different"
    ),
    (
      "\(today)ssl_verify_candidate { }",
      "3:1 warning: \"ssl_verify_candidate\" says nothing else than the server: nobody will be judged otherwise | ssl_client_certificate NEXT-CA; and what else changes"
    ),
    (
      "\(today)ssl_verify_candidate { ssl_verify_client off; }",
      "3:1 \"ssl_verify_candidate\" with \"ssl_verify_client off\": it would judge nobody | on or optional; without a line, as the server says"
    ),
    (
      "\(today)ssl_verify_candidate { ssl_client_purpose any; }",
      "3:24 \"ssl_client_purpose any\" in the server at /etc/x.conf:1:8, which has no ssl_client_allow and no ssl_client_pin: every certificate of its CAs would get in, those of every web server too | say which clients are meant: ssl_client_allow dns=client.example; or ssl_client_pin sha256//…;"
    ),
    (
      "\(today)ssl_verify_candidate { ssl_client_certificate b.cer; ssl_client_pinning certificate; }",
      "3:54 \"ssl_client_pinning certificate\" without a pin | add ssl_client_pin; `sallyport pin FILE` prints it"
    ),
  ]

  @Test(arguments: faults)
  func `what can't be meant is told once, at its place`(lines: String, problem: String) {
    #expect(server(lines).problems == [problem])
    #expect(stream(lines).problems.count == 1)
  }

  @Test func `a candidate says what is different, and has all else of the server`() throws {
    let lines = """
      \(today) ssl_verify_depth 3; ssl_client_allow cn=a;
      ssl_verify_candidate { ssl_client_certificate b.cer; ssl_crl b.crl; ssl_client_allow cn=b; ssl_client_deny cn=c; }
      """
    for loaded in [server(lines), stream(lines)] {
      #expect(loaded.problems == [])
      let http = try #require(loaded.settings?.http)
      let tls = try #require(http.servers[0].tls), next = try #require(tls.candidate?.settings)
      #expect(
        tls.clientCertificate?.description.hasSuffix("ca.cer") == true
          && next.clientCertificate?.description.hasSuffix("b.cer") == true)
      #expect(next.verification == .on && next.verifyDepth == 3 && next.presented.isEmpty && next.candidate == nil)
      #expect(tls.revocationLists.isEmpty && next.revocationLists.count == 1)
      let rules = try #require(http[TrustCandidate.Rules.self].byPlace.values.first)
      #expect(rules.allow.map(\.spelling) == ["cn=b"] && rules.deny.map(\.spelling) == ["cn=c"])
      // Nobody gets in by it: sessions and requests are judged by the server's own policy.
      #expect(http.servers[0].root.clientRules?.allow.map(\.spelling) == ["cn=a"])
      #expect(http.watchedFiles.isSuperset(of: ["/etc/b.cer", "/etc/b.crl"]))
    }
  }

  @Test func `two trusts differ where one objects and the other doesn't`() {
    #expect(CandidateDifference(today: nil, next: nil) == .same)
    #expect(CandidateDifference(today: "a", next: "b") == .same)
    #expect(CandidateDifference(today: nil, next: "b") == .wouldRefuse)
    #expect(CandidateDifference(today: "a", next: nil) == .wouldAdmit)
  }

  @Test func `a tally keeps the last client that would be locked out before one that would get in`() {
    let tally = CandidateTally([1])
    tally.count(.wouldRefuse, "CN=alice", "expired")
    tally.count(.wouldAdmit, "CN=bob", "unknown CA")
    tally.count()
    #expect(tally.counts.map(\.count) == [1, 1, 1])
    #expect(tally.last?.client == "CN=alice" && tally.last?.difference == .wouldRefuse)
  }
}
