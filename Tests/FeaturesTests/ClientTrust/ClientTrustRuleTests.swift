import ConfigurationSupport
import Crypto
@testable import Features
@testable import Forward
import Identity
import Observability
import TLS
import Testing
@testable import Traffic

private let pin = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
private let hash = "cert:" + String(repeating: "00", count: 32)
private let alone = "listen 443 ssl; ssl_certificate a.p12; ssl_verify_client on;\n"
private let beside = "listen 443 ssl; ssl_certificate a.p12; ssl_client_certificate ca.cer; ssl_verify_client on;\n"
private let off = "listen 443 ssl; ssl_certificate a.p12; ssl_verify_client off;\n"

/// A server whose lines begin in line 2, column 1, and that answers something.
private func server(_ lines: String) -> LoadedText { LoadedText("http { server {\n\(lines)\nreturn 204; } }") }

/// The same in `stream`.
private func stream(_ lines: String) -> LoadedText { LoadedText("stream { server {\n\(lines)\nreturn x; } }") }

@Suite struct `Pins and purpose of clients, as configured` {
  static let faults: [(lines: String, problem: String)] = [
    (
      "\(off)ssl_client_pin \(pin);",
      "3:1 \"ssl_client_pin\" needs client certificates, but the server at /etc/x.conf:1:8 says ssl_verify_client off | ssl_verify_client on, or optional"
    ),
    (
      "\(beside)ssl_client_pinning certificate;",
      "3:1 \"ssl_client_pinning certificate\" without a pin | add ssl_client_pin; `sallyport pin FILE` prints it"
    ),
    (
      "\(beside)ssl_client_pinning certificate; ssl_client_pin \(pin);",
      "3:48 a key's hash matches nothing with \"ssl_client_pinning certificate\" | write the certificate's hash (cert:HEX) or its file"
    ),
    (
      "\(beside)ssl_client_pinning public_key; ssl_client_pin \(hash);",
      "3:47 a certificate's hash matches nothing with \"ssl_client_pinning public_key\" | write the key's hash (`sallyport pin FILE` prints it), or use ssl_client_pinning certificate"
    ),
    (
      "\(beside)ssl_client_pin a.pem \(hash);",
      "3:22 a certificate's hash matches nothing with \"ssl_client_pinning public_key\" | pins of both kinds are given: write the key's hash (`sallyport pin FILE` prints it), or only cert:HEX"
    ),
    (
      "\(beside)ssl_client_pin chain \(hash);",
      "3:22 \"chain\" applies only to pins of keys | with ssl_client_pinning certificate, a pin is the client's own certificate"
    ),
    (
      "\(alone)ssl_client_pin chain \(pin);",
      "3:22 \"chain\" without CAs: no chain of a client is verified here | name the CAs (ssl_client_certificate), or pin the clients' own keys, without \"chain\""
    ),
    (
      "\(beside)ssl_client_pin \(pin) chain;",
      "3:69 \"chain\" must precede the pins of its line | ssl_client_pin chain PIN …; write pins of the leaf in a separate line; for a file with this name, write ./chain"
    ),
    (
      "\(beside)ssl_client_pin chain;",
      "3:16 \"ssl_client_pin chain\" without a pin | ssl_client_pin chain sha256//BASE64; a file of that name is ./chain"
    ),
    (
      "\(alone)ssl_client_pin sha256//AAAA;",
      "3:16 pin \"sha256//AAAA\": 3 bytes, but a SHA-256 has 32 (44 characters of base64) | `sallyport pin FILE` or `sallyport pin HOST:PORT` prints the right one"
    ),
    (
      "\(alone)ssl_client_pin \(pin); ssl_crl a.crl;",
      "3:70 \"ssl_crl\" revokes nobody here: clients get in by a pin alone, whatever a list says | name the CAs too (ssl_client_certificate), or remove ssl_crl; to end a client's access, remove its pin"
    ),
    (
      "\(alone)ssl_client_pin \(pin); ssl_ocsp on;",
      "3:70 \"ssl_ocsp\" asks about nobody here: clients get in by a pin alone | name the CAs too (ssl_client_certificate), or ssl_ocsp off; to end a client's access, remove its pin"
    ),
    (
      "\(alone)ssl_client_pin \(pin);\nssl_client_allow cn=a;",
      "4:1 the rule reads \"cn\", but clients of the server at /etc/x.conf:1:8 get in by a pin alone, which does not vouch for it | who has the pinned key can write any name into a certificate: use spki=…, name the CAs too (ssl_client_certificate), or pin certificates by file (ssl_client_pinning certificate)"
    ),
    (
      "\(alone)ssl_client_pin \(hash);\nlocation / { ssl_client_deny o=b; return 204; }",
      "4:14 the rule reads \"o\", but clients of the server at /etc/x.conf:1:8 get in by a pin alone, which does not vouch for it | who has the pinned key can write any name into a certificate: use spki=…, name the CAs too (ssl_client_certificate), or pin certificates by file (ssl_client_pinning certificate)"
    ),
    (
      "\(alone)ssl_client_pin \(pin);\nssl_client_deny fingerprint=\(String(repeating: "00", count: 32));",
      "4:1 a client evades this rule by a new certificate for its pinned key | deny the key: ssl_client_deny spki=…; or remove its pin"
    ),
    (
      "\(alone)ssl_client_pin \(pin);\nclient_identity xfcc;",
      "4:1 warning: \"client_identity\" tells upstreams of no client: a pin alone does not vouch for what a certificate says | proxy_set_header NAME $ssl_client_spki; tells the key, for which the pin vouches"
    ),
    (
      "\(off)ssl_client_purpose any;",
      "3:1 \"ssl_client_purpose\" needs client certificates, but the server at /etc/x.conf:1:8 says ssl_verify_client off | ssl_verify_client on, or optional"
    ),
    (
      "\(beside)ssl_client_purpose any; ssl_client_deny cn=eve; location / { ssl_client_allow cn=a; return 204; }",
      "3:1 \"ssl_client_purpose any\" in the server at /etc/x.conf:1:8, which has no ssl_client_allow and no ssl_client_pin: every certificate of its CAs would get in, those of every web server too | say which clients are meant: ssl_client_allow dns=client.example; or ssl_client_pin sha256//…;"
    ),
    (
      "\(alone)",
      "2:40 no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client | name the CA that client certificates come from: ssl_client_certificate ca.cer; or pin the clients' keys: ssl_client_pin sha256//…;"
    ),
  ]

  @Test(arguments: faults)
  func `what can't be meant has its place`(lines: String, problem: String) {
    #expect(server(lines).problems == [problem])
    if !lines.contains("location"), !lines.contains("client_identity") { #expect(stream(lines).problems.count == 1) }
  }

  static let meant: [String] = [
    "\(alone)ssl_client_pin \(pin);", "\(alone)ssl_client_pin a.pem \(pin) spki:\(String(repeating: "00", count: 32));",
    "\(alone)ssl_client_pin \(hash);", "\(alone)ssl_client_pinning certificate; ssl_client_pin a.pem \(hash);",
    "\(alone)ssl_client_pinning certificate; ssl_client_pin a.pem; ssl_client_allow cn=a;",
    "\(alone)ssl_client_pin \(pin); ssl_client_allow spki=\(String(repeating: "00", count: 32));",
    "\(alone)ssl_client_pin \(pin); ssl_client_purpose any;",
    "\(beside)ssl_client_pin \(pin); ssl_client_allow cn=a; ssl_client_deny cn=b; ssl_crl a.crl; ssl_ocsp on;",
    "\(beside)ssl_client_pin chain \(pin);", "\(beside)ssl_client_pin ./chain;",
    "\(beside)ssl_client_purpose any; ssl_client_allow dns=a.example;",
    "\(beside)ssl_client_purpose any; ssl_client_pin \(pin);", "\(beside)ssl_client_purpose client;",
  ]

  @Test(arguments: meant)
  func `what makes sense is taken, in http and in stream`(lines: String) {
    #expect(server(lines).problems == [])
    #expect(stream(lines).problems == [])
  }

  @Test func `pins of all servers leave one alone that asks for no certificate, and a server's own take their place`()
    throws
  {
    let plain = "server { listen 80; return 301 https://$host/; }"
    let open = "server { listen 444 ssl; ssl_certificate a.p12; return 204; }"
    let own = "server { \(alone) server_name b.test; ssl_client_pin b.pem; return 204; }"
    let loaded = LoadedText("http { ssl_client_pin a.pem; server { \(alone) return 204; } \(plain) \(open) \(own) }")
    #expect(loaded.problems == [])
    let servers = try #require(loaded.settings?.http.servers)
    #expect(servers[0].tls?.clientPins?.sources.map(\.spelling) == ["a.pem"])
    #expect(servers[0].tls?.clientPins?.mode == .publicKey && servers[0].tls?.reliesOnPins == true)
    #expect(servers[3].tls?.clientPins?.sources.map(\.spelling) == ["b.pem"])
  }

  @Test func `the mode is that of an upstream's pins`() throws {
    func mode(_ lines: String) throws -> PinningMode? {
      try #require(server(beside + lines).settings?.http.servers.first?.tls).clientPins?.mode
    }
    #expect(try mode("ssl_client_pin a.pem;") == .publicKey)
    #expect(try mode("ssl_client_pin \(hash);") == .certificate)
    #expect(try mode("ssl_client_pin a.pem; ssl_client_pinning certificate;") == .certificate)
    #expect(try mode("") == nil)
  }
}
