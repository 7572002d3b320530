@testable import Traffic
@testable import Forward
@testable import Features
import Crypto
import TestSupport
import Testing

@testable import Review

/// `sallyport check --diff` of servers that pin their clients, or fetch the revocation lists of their CAs.
@Suite struct ClientPinDifferenceTests {
  private static let one = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
  private static let fetched = "ssl_crl_cache lists;"
  private static let two = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

  /// `lines`: whom the server lets in.
  private static func text(_ lines: String) -> String {
    """
    events {}
    http { server { listen 127.0.0.1:8443 ssl; server_name a.example; ssl_verify_client on; \(lines)
      ssl_certificate server.pem; ssl_certificate_key server.key; return 200 x; } }
    stream { server { listen 127.0.0.1:8444 ssl; server_name b.example; ssl_verify_client on; \(lines)
      ssl_certificate server.pem; ssl_certificate_key server.key; return x; } }
    """
  }

  /// What the lines become, the direction, and words of the sentence.
  private static let cases: [(from: String, to: String, direction: TrustChange.Direction, words: String)] = [
    (
      "ssl_client_certificate ca.pem;", "ssl_client_certificate ca.pem; \(fetched) ssl_crl http://a.test/1.crl;",
      .closes,
      "clients are refused unless the revocation list of their CA could be fetched"
    ),
    (
      "ssl_client_certificate ca.pem; \(fetched) ssl_crl http://a.test/1.crl http://a.test/2.crl;",
      "ssl_client_certificate ca.pem; \(fetched) ssl_crl http://a.test/1.crl;", .opens,
      "the revocation list at http://a.test/2.crl no longer counts for clients"
    ),
    (
      "ssl_client_certificate ca.pem; \(fetched) ssl_crl http://a.test/1.crl;",
      "ssl_client_certificate ca.pem; \(fetched) ssl_crl http://a.test/1.crl http://a.test/2.crl;", .closes,
      "the revocation list at http://a.test/2.crl counts for clients"
    ),
    (
      "ssl_client_certificate ca.pem; \(fetched) ssl_crl_fetch a.test;",
      "ssl_client_certificate ca.pem; \(fetched) ssl_crl_fetch a.test:80 b.test;", .other,
      "other revocation lists that clients' certificates name are fetched (ssl_crl_fetch a.test:80 b.test)"
    ),
    ("ssl_client_pin \(one);", "ssl_client_pin \(one) \(two);", .opens, "clients with the pin \(two) get in"),
    ("ssl_client_pin \(one);", "ssl_client_pin \(two);", .closes, "clients with the pin \(one) no longer get in"),
    ("ssl_client_pin \(one);", "ssl_client_pin \(two);", .opens, "clients with the pin \(two) get in"),
    (
      "ssl_client_certificate ca.pem;", "ssl_client_certificate ca.pem; ssl_client_pin \(one);", .closes,
      "clients must match a pin too (ssl_client_pin): \(one)"
    ),
    (
      "ssl_client_certificate ca.pem; ssl_client_pin \(one);", "ssl_client_certificate ca.pem;", .opens,
      "clients need not match a pin any more (were \(one))"
    ),
    (
      "ssl_client_certificate ca.pem; ssl_client_pin \(one);", "ssl_client_pin \(one);", .opens,
      "a pin alone lets a client in: no CA, no revocation list and no validity of its chain counts"
    ),
    ("ssl_client_certificate ca.pem;", "ssl_client_pin \(one);", .opens, "a pin alone lets a client in"),
    ("ssl_client_certificate ca.pem;", "ssl_client_pin \(one);", .opens, "clients with the pin \(one) get in"),
    (
      "ssl_client_pin \(one);", "ssl_client_certificate ca.pem;", .closes,
      "clients with the pin \(one) no longer get in"
    ),
    (
      "ssl_client_pin alice.pem;", "ssl_client_pin alice.pem; ssl_client_pinning certificate;", .other,
      "pins of clients are compared with the whole certificate (ssl_client_pinning)"
    ),
    (
      "ssl_client_certificate ca.pem; ssl_client_allow cn=a;",
      "ssl_client_certificate ca.pem; ssl_client_allow cn=a; ssl_client_purpose any;", .opens,
      "the certificate of a client need not be one for clients (ssl_client_purpose any)"
    ),
    (
      "ssl_verify_client off;", "ssl_client_pin \(one);", .closes, "clients must present a pinned certificate"
    ),
  ]

  @Test func `each change is told by its own sentence, in http and in stream`() throws {
    let scene = try Scene()
    defer { scene.end() }
    _ = try Cast(scene)
    for (from, to, direction, words) in Self.cases {
      func config(_ lines: String) -> String {
        lines.contains("ssl_verify_client")
          ? Self.text("").replacing("ssl_verify_client on;", with: lines) : Self.text(lines)
      }
      let (_, back) = try scene.expectChange(
        direction, words, of: ["server a.example", "stream server b.example"], from: config(from), to: config(to))
      #expect(direction == .other || !back.contains { $0.sentence.contains(words) }, "\(back)")
    }
  }
}
