import ConfigurationSupport
@testable import Features
@testable import Forward
import Identity
import Observability
import TLS
import Testing
@testable import Traffic

private let tls =
  "listen 443 ssl; ssl_certificate a.p12; ssl_client_certificate ca.cer; ssl_verify_client on;\n"
private let off = "listen 443 ssl; ssl_certificate a.p12; ssl_verify_client off;\n"

/// A server whose lines begin in line 2, column 1, and that answers something.
private func server(_ lines: String) -> LoadedText { LoadedText("http { server {\n\(lines)\nreturn 204; } }") }

@Suite struct `Rules on clients, as configured` {
  @Test(arguments: [
    (
      tls + "ssl_client_allow cn=alice ou=;",
      "3:27 \"ou=\" has no value in \"ssl_client_allow\" | ou=** is any value"
    ),
    (
      tls + "ssl_client_deny fingerprint=0123456789012345678901234567890123456789;",
      "3:17 \"0123456789012345678901234567890123456789\" has 40 digits: a SHA-1, which is too weak in \"ssl_client_deny\" | 64 hexadecimal digits: openssl x509 -fingerprint -sha256"
    ),
    (
      off + "ssl_client_allow cn=alice;",
      "3:1 \"ssl_client_allow\" needs client certificates, but the server at /etc/x.conf:1:8 says ssl_verify_client off | ssl_verify_client on or optional; move rules for some servers into those servers"
    ),
    (
      "listen 80;\nssl_client_deny cn=alice;",
      "3:1 \"ssl_client_deny\" needs client certificates, but the server at /etc/x.conf:1:8 has no listen with ssl | ssl_verify_client on or optional; move rules for some servers into those servers"
    ),
    (
      off + "location / { location /a { client_identity xfcc; proxy_pass http://127.0.0.1; } return 204; }",
      "3:28 \"client_identity\" needs client certificates, but the server at /etc/x.conf:1:8 says ssl_verify_client off | ssl_verify_client on or optional, or client_identity off"
    ),
    (
      off + "ssl_verify_reject handshake;",
      "3:1 \"ssl_verify_reject\" needs client certificates, but the server at /etc/x.conf:1:8 says ssl_verify_client off | ssl_verify_client on, or optional"
    ),
    (
      tls + "client_identity rfc9440; location / { proxy_set_header client-CERT x; proxy_pass http://127.0.0.1; }",
      "3:39 \"client-CERT\" is set here and by client_identity | remove one of the two; the other is at /etc/x.conf:3:1"
    ),
    (
      tls
        + "ssl_verify_reject handshake; ssl_client_allow cn=a; location / { ssl_client_allow cn=b; return 204; }",
      "3:66 warning: a client that the server's ssl_client_allow denies never reaches this location's ssl_client_allow | with ssl_verify_reject handshake, the server's rules apply before a location is selected"
    ),
    (
      tls + "client_identity rfc9400;",
      "3:17 invalid value \"rfc9400\" in \"client_identity\" directive | it must be one of \"rfc9440\", \"signed\", \"xfcc\", \"mod_ssl\", \"off\"; did you mean \"rfc9440\"?"
    ),
    (
      tls + "location / { ssl_verify_reject http; return 204; }",
      "3:14 \"ssl_verify_reject\" directive is not allowed here | this is location; it belongs in http, server, stream, server in stream"
    ),
  ])
  func `what can't be meant has its place`(lines: String, problem: String) {
    #expect(server(lines).problems == [problem])
  }

  @Test(arguments: [
    off + "client_identity off;", off + "ssl_verify_reject http;",
    tls + "client_identity rfc9440; proxy_set_header Client-Cert x;",
    tls + "client_identity off; location / { proxy_set_header Client-Cert x; proxy_pass http://127.0.0.1; }",
    tls + "ssl_verify_reject handshake; location / { ssl_client_allow cn=b; return 204; }",
  ])
  func `what only looks like a contradiction is none`(lines: String) {
    #expect(server(lines).problems == [])
  }

  @Test func `rules and identity of all servers leave one alone that asks for no certificate, allow rules don't`() {
    let plain = "server { listen 80; return 301 https://$host/; }"
    #expect(
      LoadedText("http { ssl_client_deny cn=a; client_identity xfcc; ssl_verify_reject handshake; \(plain) }").problems
        == [])
    #expect(LoadedText("http { ssl_client_allow cn=a; \(plain) }").errors.count == 1)
    let closed = "server { listen 443 ssl; ssl_reject_handshake on; return 444; }"
    #expect(LoadedText("http { ssl_client_allow cn=a; \(closed) }").errors == [])
  }

  @Test func `allow and deny are inherited each by itself, and shared by who inherits them`() throws {
    let loaded = LoadedText(
      """
      http {
        ssl_client_deny cn=eve;
        server { \(tls) ssl_client_allow cn=a; ssl_client_allow cn=b;
          location /same { return 204; }
          location /own { ssl_client_allow cn=c; return 204; location /own/in { return 204; } }
          location /deny { ssl_client_deny cn=d; return 204; } }
      }
      """)
    #expect(loaded.errors == [])
    let root = try #require(loaded.settings?.http.servers.first?.root)
    func spelt(_ rules: ClientRules?) -> String {
      ((rules?.deny ?? []) + (rules?.allow ?? [])).map(\.spelling).joined(separator: " ")
    }
    #expect(spelt(root.clientRules) == "cn=eve cn=a cn=b")
    #expect(root.locations.map { spelt($0.clientRules) } == ["cn=eve cn=a cn=b", "cn=eve cn=c", "cn=d cn=a cn=b"])
    #expect(root.locations[0].clientRules === root.clientRules)
    #expect(root.locations[1].locations[0].clientRules === root.locations[1].clientRules)
  }

  @Test func `what a server says of clients reaches its handshakes`() throws {
    let plain = try #require(server(tls).settings?.http.servers.first?.tls)
    #expect(plain.rejection == .http && plain.rules == nil)
    let ruled = try #require(
      server(tls + "ssl_client_deny cn=a; ssl_verify_reject handshake;").settings?.http.servers.first?.tls)
    #expect(ruled.rejection == .handshake && ruled.rules?.needsCertificate == false)
    let demanding = try #require(server(tls + "ssl_client_allow cn=a;").settings?.http.servers.first?.tls)
    #expect(demanding.rules?.needsCertificate == true && demanding.rules?.fingerprint != ruled.rules?.fingerprint)
  }
}
