import ConfigurationSupport
import Crypto
@testable import Features
@testable import Forward
import Observability
import TLS
import Testing
@testable import Traffic

private let aPin = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

private let aCertificate = "cert:0000000000000000000000000000000000000000000000000000000000000001"
private let system = AnchorSettings(file: nil, includesSystem: true)

/// One pin of a leaf as settings have it.
private func pins(_ spelling: String, mode: PinningMode = .publicKey) -> PinSettings {
  PinSettings(
    mode: mode,
    sources: [
      PinSource(
        spelling: spelling, scope: .leaf, folder: "/etc", location: SourceLocation(file: "", line: 1, column: 1))
    ])
}

/// A location of one https upstream; its lines begin in line 2, column 1.
private func upstream(_ lines: String, pass: String = "https://up.example") -> LoadedText {
  LoadedText("http { server { listen 80; location / {\n\(lines)\nproxy_pass \(pass);\n} } }")
}

private func trust(_ lines: String) -> UpstreamTLSSettings? {
  guard let pass = upstream(lines).settings?.http.servers.first?.root.locations.first?[UpstreamPass.self] else {
    return nil
  }
  return pass.trust.tls
}

@Suite struct UpstreamTrustRuleTests {
  @Test func `an https upstream of which nothing is said is refused`() {
    #expect(
      upstream("").diagnostics.map(\.description) == [
        """
        /etc/x.conf:3:1: error: this https upstream has no trust settings
            hint: pin its key (`sallyport pin HOST:PORT` prints the line), or write proxy_ssl_verify on, or \
        proxy_ssl_verify off to accept any upstream
        """
      ])
    #expect(upstream("proxy_ssl_verify_name on; proxy_ssl_trust_system off;").errors.count == 1)
    #expect(upstream("proxy_ssl_pinning none;").errors.count == 1)
    #expect(upstream("", pass: "https://$host").errors.count == 1)
  }

  @Test func `verification off is enough when it is said aloud`() throws {
    #expect(trust("proxy_ssl_verify off;")?.trust == .anybody)
  }

  @Test func `a pin alone pins the key, and verifies chain and name against the system's anchors`() {
    #expect(
      trust("proxy_ssl_pin \(aPin);")?.trust
        == .pinned(pins(aPin), system, checksName: true, reportsOnly: false))
    #expect(
      trust("proxy_ssl_pin \(aPin);")?.trust.pins?.sources.first?.location
        == SourceLocation(file: "/etc/x.conf", line: 2, column: 15))
  }

  @Test func `a trust file switches verification on and the system's anchors off`() throws {
    let file = try MaterialReference(parsing: "ca.pem", relativeTo: "/etc")
    #expect(
      trust("proxy_ssl_trusted_certificate ca.pem;")?.trust
        == .verified(AnchorSettings(file: file, includesSystem: false), checksName: true))
    #expect(
      trust("proxy_ssl_trusted_certificate ca.pem; proxy_ssl_trust_system on;")?.trust
        == .verified(AnchorSettings(file: file, includesSystem: true), checksName: true))
    #expect(trust("proxy_ssl_trust_system on;")?.trust == .verified(system, checksName: true))
  }

  @Test func `verification off with a pin means the pin alone`() {
    #expect(
      trust("proxy_ssl_verify off; proxy_ssl_pin \(aPin);")?.trust == .pinnedLeaf(pins(aPin), nil, checksName: false))
    // Unless a name is asked for aloud.
    #expect(
      trust("proxy_ssl_verify off; proxy_ssl_verify_name on; proxy_ssl_pin \(aPin);")?.trust
        == .pinnedLeaf(pins(aPin), nil, checksName: true))
  }

  @Test func `the name check can be left out and the chain kept`() {
    #expect(
      trust("proxy_ssl_verify on; proxy_ssl_verify_name off;")?.trust == .verified(system, checksName: false))
  }

  @Test func `allow_invalid lets a pin stand for the chain, and keeps the name`() {
    #expect(
      trust("proxy_ssl_allow_invalid on; proxy_ssl_pin \(aPin);")?.trust
        == .pinnedLeaf(pins(aPin), system, checksName: true))
    #expect(
      trust("proxy_ssl_allow_invalid on; proxy_ssl_verify_name off; proxy_ssl_pin \(aPin);")?.trust
        == .pinnedLeaf(pins(aPin), system, checksName: false))
    // There need be nothing to verify against.
    #expect(
      trust("proxy_ssl_allow_invalid on; proxy_ssl_trust_system off; proxy_ssl_pin \(aPin);")?.trust
        == .pinnedLeaf(pins(aPin), AnchorSettings(file: nil, includesSystem: false), checksName: true))
  }

  @Test func `report-only keeps the chain`() {
    #expect(
      trust("proxy_ssl_pin_report_only on; proxy_ssl_pin \(aPin);")?.trust
        == .pinned(pins(aPin), system, checksName: true, reportsOnly: true))
  }

  @Test func `the mode is certificate when all pins are hashes of certificates, else public_key`() {
    #expect(
      trust("proxy_ssl_pin \(aCertificate);")?.trust
        == .pinned(pins(aCertificate, mode: .certificate), system, checksName: true, reportsOnly: false))
    #expect(trust("proxy_ssl_pin up.pem;")?.trust.pins?.mode == .publicKey)
    #expect(trust("proxy_ssl_pinning certificate; proxy_ssl_pin up.pem;")?.trust.pins?.mode == .certificate)
    #expect(
      trust("proxy_ssl_pinning certificate; proxy_ssl_pin \(aCertificate) up.pem;")?.trust.pins?.mode == .certificate)
  }

  @Test func `a certificate file as a pin is an anchor, so that none other is needed`() {
    #expect(
      trust("proxy_ssl_pinning certificate; proxy_ssl_pin up.pem; proxy_ssl_trust_system off;")?.trust
        == .pinned(
          pins("up.pem", mode: .certificate), AnchorSettings(file: nil, includesSystem: false), checksName: true,
          reportsOnly: false))
    #expect(upstream("proxy_ssl_pin up.pem; proxy_ssl_trust_system off;").errors.count == 1)
    #expect(upstream("proxy_ssl_pin \(aCertificate); proxy_ssl_trust_system off;").errors.count == 1)
  }

  @Test func `a certificate of ours that variables name is each request's own`() {
    func identity(_ lines: String) -> PresentedIdentitySettings? {
      guard
        let pass = upstream("proxy_ssl_verify on; \(lines)").settings?.http.servers.first?.root.locations
          .first?[UpstreamPass.self]
      else { return nil }
      #expect(pass.trust.identity == nil || pass.trust.tls?.certificate == nil)
      return pass.trust.identity
    }
    let named = identity("proxy_ssl_certificate certs/$host.pem; proxy_ssl_certificate_key same.key;")
    #expect(
      named?.certificate
        == Template([.literal(Array("certs/".utf8)), .variable(.simple(.host)), .literal(Array(".pem".utf8))]))
    #expect(named?.key == Template(literal: "same.key") && named?.folder == "/etc")
    #expect(identity("proxy_ssl_certificate same.pem; proxy_ssl_certificate_key $host.key;") != nil)
    #expect(identity("proxy_ssl_certificate $host.p12;")?.key == nil)
    #expect(identity("proxy_ssl_certificate a.pem; proxy_ssl_certificate_key a.key;") == nil)
  }

  @Test func `chain is for the pins of its line`() {
    let sources = trust("proxy_ssl_pin chain \(aPin) up.pem; proxy_ssl_pin ./chain;")?.trust.pins?.sources ?? []
    #expect(sources.map(\.scope) == [.chain, .chain, .leaf])
    #expect(sources.map(\.spelling) == [aPin, "up.pem", "./chain"])
  }

  @Test(arguments: [
    (
      "proxy_ssl_pinning public_key;",
      "2:1 \"proxy_ssl_pinning public_key\" without a pin | add proxy_ssl_pin; `sallyport pin FILE` or `sallyport pin HOST:PORT` prints it"
    ),
    (
      "proxy_ssl_pinning none;\nproxy_ssl_pin \(aPin);",
      "3:15 a pin is given, but \"proxy_ssl_pinning none\" ignores it | remove one of the two; the other is at /etc/x.conf:2:1"
    ),
    (
      "proxy_ssl_pin \(aPin);\nproxy_ssl_pinning certificate;",
      "3:1 \"proxy_ssl_pinning certificate\" with hashes of keys only: no certificate can match | pin certificates (cert:HEX or a file), or use proxy_ssl_pinning public_key"
    ),
    (
      "proxy_ssl_pin up.pem \(aPin);\nproxy_ssl_pinning certificate;",
      "2:22 a key's hash matches nothing with \"proxy_ssl_pinning certificate\" | write the certificate's hash (cert:HEX) or its file"
    ),
    (
      "proxy_ssl_pin \(aCertificate);\nproxy_ssl_pinning public_key;",
      "2:15 a certificate's hash matches nothing with \"proxy_ssl_pinning public_key\" | write the key's hash (`sallyport pin FILE` prints it), or use proxy_ssl_pinning certificate"
    ),
    (
      "proxy_ssl_pin up.pem \(aCertificate);",
      "2:22 a certificate's hash matches nothing with \"proxy_ssl_pinning public_key\" | pins of both kinds are given: write the key's hash (`sallyport pin FILE` prints it), or only cert:HEX"
    ),
    (
      "proxy_ssl_allow_invalid on;",
      "2:1 \"proxy_ssl_allow_invalid on\" without a pin: a self-signed upstream can only be trusted by a pin | add proxy_ssl_pin (`sallyport pin HOST:PORT` prints it); a name check alone proves nothing"
    ),
    (
      "proxy_ssl_allow_invalid on;\nproxy_ssl_verify_name off;",
      "2:1 \"proxy_ssl_allow_invalid on\" without a pin: a self-signed upstream can only be trusted by a pin | add proxy_ssl_pin (`sallyport pin HOST:PORT` prints it); a name check alone proves nothing"
    ),
    (
      "proxy_ssl_allow_invalid on;\nproxy_ssl_pin_report_only on; proxy_ssl_pin \(aPin);",
      "3:1 \"proxy_ssl_pin_report_only on\" beside \"proxy_ssl_allow_invalid on\": every upstream would be accepted | remove one of the two; the other is at /etc/x.conf:2:1"
    ),
    (
      "proxy_ssl_verify off;\nproxy_ssl_pin_report_only on; proxy_ssl_pin \(aPin);",
      "3:1 \"proxy_ssl_pin_report_only on\" beside \"proxy_ssl_verify off\": every upstream would be accepted | only the pin counts with proxy_ssl_verify off; remove one of the two; the other is at /etc/x.conf:2:1"
    ),
    (
      "proxy_ssl_verify off;\nproxy_ssl_allow_invalid off; proxy_ssl_pin \(aPin);",
      "3:1 \"proxy_ssl_allow_invalid off\" beside \"proxy_ssl_verify off\", which accepts a pin instead of a verified chain | remove one of the two; the other is at /etc/x.conf:2:1"
    ),
    (
      "proxy_ssl_verify on; proxy_ssl_pin chain;",
      "2:36 \"proxy_ssl_pin chain\" without a pin | proxy_ssl_pin chain sha256//BASE64; a file of that name is ./chain"
    ),
    (
      "proxy_ssl_pin \(aPin) chain;",
      "2:68 \"chain\" must precede the pins of its line | proxy_ssl_pin chain PIN …; write pins of the leaf in a separate line; for a file with this name, write ./chain"
    ),
    (
      "proxy_ssl_verify off;\nproxy_ssl_trusted_certificate a;",
      "2:1 \"proxy_ssl_verify off\" beside \"proxy_ssl_trusted_certificate\" | nothing is verified against these CAs: remove one of the two; the other is at /etc/x.conf:3:1"
    ),
    (
      "proxy_ssl_verify off;\nproxy_ssl_trust_system on;",
      "2:1 \"proxy_ssl_verify off\" beside \"proxy_ssl_trust_system\" | nothing is verified against these CAs: remove one of the two; the other is at /etc/x.conf:3:1"
    ),
    (
      "proxy_ssl_verify on;\nproxy_ssl_trust_system off;",
      "3:1 there are no CAs to verify the upstream's chain | add proxy_ssl_trusted_certificate, or remove proxy_ssl_trust_system off"
    ),
    (
      "proxy_ssl_verify on;\nproxy_ssl_certificate_key k;",
      "3:1 \"proxy_ssl_certificate_key\" without \"proxy_ssl_certificate\" | name the certificate that the key belongs to"
    ),
    (
      "proxy_ssl_verify on; proxy_ssl_certificate_key $ssl_server_name.pem;",
      "2:22 \"proxy_ssl_certificate_key\" without \"proxy_ssl_certificate\" | name the certificate that the key belongs to"
    ),
    (
      "proxy_ssl_verify on; proxy_ssl_certificate $nothing.pem;",
      "2:44 unknown \"nothing\" variable"
    ),
    (
      "proxy_ssl_verify on; proxy_ssl_certificate store:pkcs11:object=x;",
      "2:44 \"store:pkcs11:object=x\": store: names a private key, which is not what is wanted here | name a PEM, DER or PKCS#12 file, or a systemd credential as credential:NAME"
    ),
    (
      "proxy_ssl_verify on; proxy_ssl_certificate a.pem; proxy_ssl_certificate_key engine:gost:x;",
      "2:77 \"engine:gost:x\": of OpenSSL's engines only pkcs11 is supported | engine:pkcs11:ID, or a key of an OpenSSL provider as store:URI, or name a file"
    ),
    (
      "proxy_ssl_verify off;\nproxy_ssl_crl crl.pem;",
      "3:1 \"proxy_ssl_crl\" without verification of the chain | a revocation list needs a verified chain: use proxy_ssl_verify on, or remove the list"
    ),
    // One fault, and not another beside it.
    (
      "proxy_ssl_pin up.pem \(aCertificate);\nproxy_ssl_pinning none;",
      "2:15 a pin is given, but \"proxy_ssl_pinning none\" ignores it | remove one of the two; the other is at /etc/x.conf:3:1"
    ),
  ])
  func `a contradiction in the trust of an upstream is refused`(lines: String, problem: String) {
    let loaded = upstream(lines)
    #expect(loaded.problems == [problem])
    #expect(loaded.settings == nil)
  }

  @Test(arguments: [
    "sha256//AAAA", "sha256/!", "sha256:", "spki:00", "cert:00", "cert:", "sha1/x", "credential:a/b", "store:x",
  ])
  func `a malformed pin is refused at its place`(pin: String) {
    let loaded = upstream("proxy_ssl_pin \(pin);")
    #expect(loaded.errors.count == 1)
    #expect(loaded.errors.first?.hasPrefix("2:15 ") == true)
  }

  @Test(arguments: [
    (
      "proxy_ssl_trust_system on;\nproxy_ssl_pin_report_only on;",
      "3:1 warning: \"proxy_ssl_pin_report_only on\" has no effect: nothing is pinned | add proxy_ssl_pin; `sallyport pin HOST:PORT` prints it"
    ),
    (
      "proxy_ssl_pin chain \(aCertificate);",
      "2:21 warning: \"chain\" has no effect on this pin: it applies only to pins of keys | with proxy_ssl_pinning certificate, a pin can match any certificate of the verified chain"
    ),
    (
      "proxy_ssl_allow_invalid on; proxy_ssl_pin chain \(aPin);",
      "2:49 warning: \"chain\" has no effect on this pin: here the chain does not have to verify | with proxy_ssl_allow_invalid on, or proxy_ssl_verify off, only the upstream's own key counts"
    ),
  ])
  func `what has no effect on the trust of an upstream is warned of`(lines: String, problem: String) {
    #expect(upstream(lines).problems == [problem])
  }

  @Test(arguments: [
    "proxy_ssl_verify on; proxy_ssl_pin_report_only on; proxy_ssl_pin \(aPin);",
    "proxy_ssl_verify off; proxy_ssl_allow_invalid on; proxy_ssl_pin \(aPin);",
    "proxy_ssl_verify on; proxy_ssl_allow_invalid off; proxy_ssl_pin \(aPin);",
    "proxy_ssl_verify off; proxy_ssl_allow_invalid off;", "proxy_ssl_pin chain \(aPin);",
    "proxy_ssl_verify on; proxy_ssl_trusted_certificate a;", "proxy_ssl_verify off; proxy_ssl_verify_name off;",
    "proxy_ssl_verify on; proxy_ssl_verify_name on;",
    "proxy_ssl_verify off; proxy_ssl_verify_name on; proxy_ssl_pin \(aPin);",
    "proxy_ssl_trusted_certificate a; proxy_ssl_crl crl.pem;",
  ])
  func `what only looks like a contradiction is none`(lines: String) {
    #expect(upstream(lines).problems == [])
  }

  @Test func `a pin is warned of once where two rules have to do with it`() {
    #expect(upstream("proxy_ssl_pin chain \(aCertificate); proxy_ssl_allow_invalid on;").problems.count == 1)
    #expect(upstream("proxy_ssl_verify off; proxy_ssl_pin_report_only on;").problems.count == 1)
    #expect(upstream("proxy_ssl_pinning public_key;", pass: "http://up.example").problems.count == 1)
  }

  @Test func `a name check of an upstream that is not verified is warned of`() {
    #expect(
      upstream("proxy_ssl_verify off;\nproxy_ssl_verify_name on;").problems == [
        "3:1 warning: \"proxy_ssl_verify_name on\" has no effect beside proxy_ssl_verify off | without verification, a certificate can contain any name"
      ])
  }

  @Test func `TLS of an upstream that is asked without TLS is warned of, inherited or not`() {
    #expect(
      upstream("proxy_ssl_pin \(aPin);", pass: "http://up.example").problems == [
        "2:1 warning: \"proxy_ssl_pin\" has no effect: the connection to the upstream has no TLS | proxy_pass https://…, at /etc/x.conf:3:1"
      ])
    #expect(
      LoadedText("http { proxy_ssl_verify on; server { location / { proxy_pass http://a.example; } } }").problems == [])
  }

  @Test func `a group's name that stands in for a server's is warned of`() {
    let text = "http { upstream app { server a.example:443; }\nserver { location / { proxy_ssl_verify on;\n"
    #expect(
      LoadedText(text + "proxy_pass https://app; } } }").problems == [
        "3:1 warning: the upstream's certificate must be for \"app\", the name of the group | set the name in the certificate: proxy_ssl_name a.example;"
      ])
    for quiet in ["proxy_ssl_name a.example;", "proxy_ssl_verify_name off;"] {
      #expect(LoadedText(text + "\(quiet) proxy_pass https://app; } } }").problems == [])
    }
  }

  @Test func `TLS to port 80 of a group is warned of`() {
    #expect(
      LoadedText(
        "http { upstream a.example {\nserver a.example; }\nserver { location / { proxy_ssl_verify on; proxy_pass https://a.example; } } }"
      ).problems == [
        "2:1 warning: a.example:80 would get TLS on port 80 | in an upstream block the default port is 80: write a.example:443"
      ])
  }

  @Test func `an inner level that gives a pin takes none of the outer ones`() throws {
    let other = "spki:0000000000000000000000000000000000000000000000000000000000000001"
    let loaded = LoadedText(
      "http { proxy_ssl_pin \(aPin); server { location / { proxy_ssl_pin \(other); proxy_pass https://a.example; } "
        + "location /b { proxy_pass https://a.example; } } }")
    let locations = try #require(loaded.settings?.http.servers.first?.root.locations)
    let pins = locations.map { location -> [String] in
      guard let pass = location[UpstreamPass.self] else { return [] }
      return pass.trust.tls?.trust.pins?.sources.map(\.spelling) ?? []
    }
    #expect(pins == [[other], [aPin]])
  }
}
