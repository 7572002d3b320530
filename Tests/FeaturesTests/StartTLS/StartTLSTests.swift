import ConfigurationSupport
@testable import Features
@testable import Forward
import Negotiation
import Testing
@testable import Traffic

/// `starttls` and `proxy_starttls` as a configuration says them. What they say on a wire: NegotiationTests and
/// EndToEndTests.
@Suite struct `The directives of STARTTLS` {
  private static let tls = "proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name a;"

  private static func server(_ listens: String, _ lines: String) -> LoadedText {
    LoadedText(
      "stream { server { \(listens) ssl_certificate c.pem; ssl_certificate_key k.pem; proxy_pass a:1;\n\(lines)\n} }")
  }

  @Test(arguments: ["listen 81;", "listen 81 ssl; listen 82;"])
  func `a client's TLS needs a listener that ends it`(listens: String) {
    let errors = Self.server(listens, "starttls imap;").errors
    #expect(
      errors == [
        "2:1 \"starttls\" on a \"listen\" without ssl | write \"listen … ssl\": the client's TLS ends here"
      ])
    #expect(Self.server(listens, "starttls off;").errors == [])
    #expect(Self.server("listen 81 ssl;", "starttls imap;").problems == [])
  }

  @Test func `an upstream is asked for TLS only where it gets TLS`() {
    #expect(
      Self.server("listen 81 ssl;", "proxy_starttls imap;").errors == [
        "2:1 \"proxy_starttls\" without \"proxy_ssl on\""
          + " | write proxy_ssl on; and whom to trust, such as proxy_ssl_trusted_certificate"
      ])
    #expect(Self.server("listen 81 ssl;", "proxy_starttls imap; \(Self.tls)").problems == [])
    #expect(Self.server("listen 81 ssl;", "proxy_starttls off;").problems == [])
  }

  @Test func `a connection has one protocol`() {
    #expect(
      Self.server("listen 81 ssl;", "proxy_starttls imap; starttls pop3; \(Self.tls)").errors == [
        "2:1 \"proxy_starttls imap\" beside \"starttls pop3\" | a connection has one protocol"
      ])
    #expect(Self.server("listen 81 ssl;", "proxy_starttls imap; starttls imap; \(Self.tls)").problems == [])
  }

  @Test(arguments: [
    // Clients that are greeted by sallyport must not get the upstream's greeting, which comes first.
    ("starttls smtp;", NegotiatedProtocol.smtp, UpstreamNegotiation.Goal.greetingOnly, false),
    ("starttls imap;", .imap, .greetingOnly, false), ("starttls pop3;", .pop3, .greetingOnly, false),
    ("proxy_starttls smtp; \(tls)", .smtp, .tls, true),
    ("starttls imap; proxy_starttls imap; \(tls)", .imap, .tls, false),
    ("starttls postgres; proxy_starttls postgres; \(tls)", .postgres, .tls, false),
  ])
  func `what the upstream is told, and whether the client gets its greeting`(
    lines: String, kind: NegotiatedProtocol, goal: UpstreamNegotiation.Goal, passes: Bool
  ) throws {
    let loaded = Self.server("listen 81 ssl;", lines)
    let pass = try #require(
      loaded.settings?.http.servers.first?.root[UpstreamPass.self]?.tcp, "\(loaded.problems)")
    #expect(pass.opening == UpstreamOpening(kind: kind, goal: goal) && pass.passesGreeting == passes)
    #expect(pass.opening?.asked == (goal == .tls ? kind.rawValue : nil))
  }

  @Test(arguments: ["", "starttls postgres;", "starttls ldap;"])
  func `a protocol whose client speaks first has no greeting to read`(line: String) throws {
    let pass = try #require(
      Self.server("listen 81 ssl;", line).settings?.http.servers.first?.root[UpstreamPass.self]?.tcp)
    #expect(pass.opening == nil)
  }

  @Test func `case doesn't matter`() {
    let stream = Self.server("listen 81 ssl;", "starttls SMTP;").settings?.http.servers.first?.stream
    #expect(stream?.negotiation == .smtp && stream?.asked == "smtp")
  }
}
