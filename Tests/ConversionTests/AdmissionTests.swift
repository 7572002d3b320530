import Language
import Testing

@testable import Conversion

/// What an old configuration refuses is refused by the new one. A case has lines that must stand in the server, or says that
/// the server is closed.
@Suite struct `Nobody gets in whom the old configuration refused` {
  struct Case: Sendable, CustomStringConvertible {
    let peer: Sample.Peer
    let name: String
    let text: String
    /// nil: nobody gets in.
    var lines: [String]?
    var description: String { "\(peer.rawValue): \(name)" }
  }

  private static let server = "[s]\naccept = 1\nconnect = 2\ncert = c\n"
  private static func stunnel(_ name: String, _ options: String, _ lines: [String]?) -> Case {
    Case(peer: .stunnel, name: name, text: server + options, lines: lines)
  }
  private static func ghostunnel(_ name: String, _ flags: String, _ lines: [String]?) -> Case {
    Case(
      peer: .ghostunnel, name: name,
      text: "ghostunnel server --listen 127.0.0.1:1 --target localhost:2 --cert c --key k \(flags)", lines: lines)
  }
  private static func haproxy(_ name: String, _ bind: String, _ rules: String, _ lines: [String]?) -> Case {
    Case(
      peer: .haproxy, name: name,
      text:
        "backend b\nmode http\nserver s 127.0.0.1:80\nfrontend f\nmode http\nbind 127.0.0.1:1 ssl crt c \(bind)\n\(rules)\n"
        + "default_backend b\n", lines: lines)
  }

  static let cases: [Case] = [
    stunnel("verify = 2", "verify = 2\nCAfile = a", ["ssl_client_certificate a;", "ssl_verify_client on;"]),
    stunnel("verifyChain", "verifyChain = yes\nCAfile = a", ["ssl_client_certificate a;", "ssl_verify_client on;"]),
    stunnel(
      "requireCert = no beside verifyChain", "verifyChain = yes\nrequireCert = no\nCAfile = a",
      ["ssl_verify_client on;"]),
    stunnel(
      "verify = 3", "verify = 3\nCAfile = a",
      ["ssl_client_certificate a;", "ssl_client_pin a;", "ssl_client_pinning certificate;", "ssl_verify_client on;"]),
    stunnel("verify = 4", "verify = 4\nCAfile = a", ["ssl_client_pin a;", "ssl_verify_client on;"]),
    stunnel("verifyPeer", "verifyPeer = yes\nCAfile = a", ["ssl_client_pin a;", "ssl_verify_client on;"]),
    stunnel("verify = 1", "verify = 1\nCAfile = a", ["ssl_client_certificate a;", "ssl_verify_client optional;"]),
    stunnel("verify without CAs", "verify = 2", nil),
    stunnel("a folder of CAs", "verify = 2\nCApath = /etc/ssl", nil),
    stunnel("a folder of lists", "verify = 2\nCAfile = a\nCRLpath = /crl", nil),
    stunnel("a list", "verify = 2\nCAfile = a\nCRLfile = l", ["ssl_crl l;"]),
    stunnel(
      "names of two kinds", "verify = 2\nCAfile = a\ncheckHost = h.example\ncheckEmail = x@h.example",
      ["ssl_client_allow dns=h.example email=x@h.example;"]),
    stunnel("a name with a wildcard", "verify = 2\nCAfile = a\ncheckHost = *.example", nil),
    stunnel("a certificate of anybody", "requireCert = yes", nil),
    stunnel("a name that stunnel ignores", "checkHost = h.example", nil),
    stunnel("hosts.deny", "libwrap = yes", nil),
    stunnel("shared keys", "PSKsecrets = p", nil),
    stunnel("an option with a slip", "verifyChian = yes\nCAfile = a", nil),
    stunnel("a line that is none", "verifyChain yes", nil),
    stunnel("levels that contradict", "verify = 2\nverifyChain = no\nCAfile = a", nil),
    stunnel("a level that isn't there", "verify = 7\nCAfile = a", nil),
    ghostunnel("--allow-all", "--cacert a --allow-all", ["ssl_client_certificate a;", "ssl_verify_client on;"]),
    ghostunnel("--allow-cn", "--cacert a --allow-cn x", ["ssl_client_allow cn=x;", "ssl_verify_client on;"]),
    ghostunnel("a star in a name", "--cacert a --allow-cn x*", ["ssl_client_allow \"cn=~x\\\\*\";"]),
    ghostunnel("a tilde in a name", "--cacert a --allow-dns ~.", ["ssl_client_allow \"dns=~~\\\\.\";"]),
    ghostunnel("no rule", "--cacert a", nil),
    ghostunnel("no CA", "--allow-all", nil),
    ghostunnel("a policy", "--cacert a --allow-policy p --allow-query q", nil),
    ghostunnel("a policy beside a rule", "--cacert a --allow-cn x --allow-policy p --allow-query q", nil),
    ghostunnel("rules that contradict", "--cacert a --allow-all --allow-cn x", nil),
    ghostunnel("a flag with a slip", "--cacert a --allow-al", nil),
    ghostunnel("a pin of another hash", "--allow-spki-pin sha512:AAAA", nil),
    ghostunnel("an empty name", "--cacert a --allow-cn=", nil),
    haproxy(
      "verify required", "ca-file a verify required", "", ["ssl_client_certificate a;", "ssl_verify_client on;"]),
    haproxy("verify without CAs", "verify required", "", nil),
    haproxy("an unknown parameter", "ca-file a verify required wibble", "", nil),
    haproxy(
      "faults that are ignored", "ca-file a verify required crt-ignore-err all", "", ["ssl_verify_client on;"]),
    haproxy(
      "a common name", "ca-file a verify required", "http-request deny unless { ssl_c_s_dn(cn) -m str x }",
      ["ssl_client_allow cn=x;"]),
    haproxy(
      "a common name that is refused", "ca-file a verify required", "http-request deny if { ssl_c_s_dn(cn) x }",
      ["ssl_client_deny cn=x;"]),
    haproxy(
      "any certificate", "ca-file a verify optional", "http-request deny unless { ssl_c_used }",
      ["ssl_client_allow serial=*;"]),
    haproxy("a certificate that nobody asks for", "", "http-request deny unless { ssl_c_used }", nil),
    haproxy(
      "two rules of one kind", "ca-file a verify required",
      "http-request deny unless { ssl_c_s_dn(cn) x }\nhttp-request deny unless { ssl_c_s_dn(ou) y }", nil),
    haproxy(
      "alternatives", "ca-file a verify required", "http-request deny if { src 10.0.0.1 } or { path /x }",
      ["deny 10.0.0.1;", "location = /x {", "return 403;"]),
    haproxy(
      "the negation of alternatives", "ca-file a verify required",
      "http-request deny unless { ssl_c_s_dn(cn) x } or { ssl_c_s_dn(ou) y }",
      ["ssl_client_allow cn=x;", "ssl_client_allow ou=y;"]),
    haproxy("an alternative that nobody knows", "", "http-request deny if { path /x } or { url_reg y }", nil),
    haproxy(
      "hosts that no rule names", "", "http-request deny if !{ hdr(host) a.example } !{ hdr(host) b.example }",
      ["server_name a.example;", "server_name b.example;", "return 403;"]),
    haproxy("TLS without end", "", "http-request redirect scheme https", nil),
    haproxy("several certificates whose names nobody knows", "crt d", "", nil),
    haproxy("an address", "", "http-request deny unless { src 10.0.0.0/8 }", ["allow 10.0.0.0/8;", "deny all;"]),
    haproxy("an unknown condition", "", "http-request deny if { url_reg x }", nil),
    haproxy(
      "addresses in an order that matters", "",
      "tcp-request connection reject unless { src 10.0.0.0/8 }\ntcp-request connection reject if { src 10.0.0.1 }", nil),
    haproxy(
      "addresses at two levels", "",
      "tcp-request connection reject if { src 10.0.0.1 }\nhttp-request deny if { path_beg /x } !{ src 10.0.0.0/8 }", nil
    ),
    haproxy("a section of other defaults", "", "http-request allow", nil),
    haproxy("a password", "", "http-request auth", nil),
    haproxy("a rule with a slip", "", "http-requst deny", nil),
    haproxy("everybody", "", "http-request deny", ["return 403;"]),
    haproxy("a path", "", "http-request deny if { path_beg /x }", ["location ^~ /x {", "return 403;"]),
    Case(
      peer: .nginx, name: "a check of a module in a location",
      text: "events { } http { server { listen 1; location / { auth_jwt x; proxy_pass http://a; } } }",
      lines: ["location / {", "return 404;"]),
    Case(
      peer: .nginx, name: "a check of a module in a server",
      text: "events { } http { server { listen 1; auth_ldap x; location / { proxy_pass http://a; } } }", lines: nil),
    Case(
      peer: .nginx, name: "a group that keeps clients apart",
      text:
        "events { } http { upstream u { server a:1; ntlm; } server { listen 1; location / { proxy_pass http://u; } } }",
      lines: ["server 127.0.0.1:1 down;"]),
    Case(
      peer: .nginx, name: "content of a module, without which files would be served",
      text: "events { } http { root /srv; server { listen 1; location / { memcached_pass a:1; } } }",
      lines: ["location / {", "return 404;"]),
    Case(
      peer: .nginx, name: "a condition that can't be had",
      text: "events { } http { server { listen 1; location / { if ($x) { js_content y; } proxy_pass http://a; } } }",
      lines: ["location / {", "return 404;"]),
  ]

  @Test(arguments: cases) func `line by line`(sample: Case) {
    let converted = Sample.converted(sample.text, sample.peer)
    let lines = converted.text.split(separator: "\n").map { String($0.drop { $0 == " " }) }
    let passes = lines.contains { $0.hasPrefix("proxy_pass") }
    guard let expected = sample.lines else {
      #expect(!passes, "\(converted.text)")
      #expect(!converted.isWhole)
      return
    }
    for line in expected { #expect(lines.contains(line), "\(line) is missing:\n\(converted.text)") }
  }
}
