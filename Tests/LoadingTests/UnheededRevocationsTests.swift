@testable import Loading
@testable import Traffic
@testable import Forward
@testable import Features
import Configuration
import Observability
import Testing

@Suite struct `Authorities whose revocations nobody looks at` {
  /// The server that takes the authority's clients has its own line, the second.
  private func warnings(_ lines: String, listen: String = "ssl", authority: String = "ca") throws -> [String] {
    let (settings, diagnostics) = Configuration.load(
      text:
        """
        http { ssl_certificate c; ssl_certificate_key k; auth_basic_user_file users;
        server { listen 443 \(listen); \(lines) location / { return 204; } }
        server { listen 444 ssl; location = /enrol { enrolment on; enrolment_authority \(authority); auth_basic x; } } }
        """, fileName: "/etc/x.conf")
    let http = try #require(settings, "\(diagnostics)").http
    return UnheededRevocations.warnings(http).map { warning in
      "\(warning.location?.line ?? 0): \(warning.message) | \(warning.hint ?? "")"
    }
  }

  private static let on = "ssl_verify_client on; "

  @Test(arguments: [
    "ssl_client_certificate ca/ca.crt;", "ssl_client_certificate ./ca/../ca//ca.crt;",
    "ssl_trusted_certificate /etc/ca/ca.crt;", "ssl_client_certificate ca/ca.crt; ssl_crl other.pem;",
  ])
  func `a server that lets in whom an authority revokes is told of`(lines: String) throws {
    let found = try warnings(Self.on + lines)
    #expect(found.count == 1, "\(found)")
    #expect(
      found.first?.hasPrefix("2:") == true && found.first?.hasSuffix(" | ssl_crl ca/crl.pem;") == true, "\(found)")
  }

  @Test(arguments: [
    on + "ssl_client_certificate ca/ca.crt; ssl_crl ca/crl.pem;",
    on + "ssl_client_certificate ca/ca.crt; ssl_crl /etc/ca/./crl.pem;",
    on + "ssl_client_certificate ca/ca.crt; ssl_crl other.pem; ssl_crl ca/crl.pem;",
    on + "ssl_client_certificate ca/ca.crt; ssl_ocsp on;",
    on + "ssl_client_certificate others.crt;",
    "ssl_client_certificate ca/ca.crt; ssl_verify_client off;",
  ])
  func `one that looks at its list, or has other clients, is not`(lines: String) throws {
    #expect(try warnings(lines).isEmpty)
  }

  @Test func `the hint names the authority as it is spelt`() throws {
    let found = try warnings(Self.on + "ssl_client_certificate /etc/ca/ca.crt;", authority: "/etc/ca")
    #expect(found.first?.hasSuffix(" | ssl_crl /etc/ca/crl.pem;") == true, "\(found)")
  }
}
