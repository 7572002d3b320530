import Observability
import Proxy
import TLS
import Testing

@testable import Configuration

let aPin = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

/// A location of one https upstream; its lines begin in line 2, column 1.
private func upstream(_ lines: String, pass: String = "https://up.example") -> LoadedText {
  LoadedText("http { server { listen 80; location / {\n\(lines)\nproxy_pass \(pass);\n} } }")
}

private func trust(_ lines: String) -> UpstreamTLSSettings? {
  guard case .proxy(let pass)? = upstream(lines).settings?.http.servers.first?.root.locations.first?.action else {
    return nil
  }
  return pass.tls
}

@Suite struct UpstreamTrustRuleTests {
  @Test func `an https upstream of which nothing is said is refused`() {
    #expect(
      upstream("").diagnostics.map(\.description) == [
        """
        /etc/x.conf:3:1: error: nothing is said of the trust in this https upstream
            hint: pin its key (`sallyport pin HOST:PORT` prints the line), or say proxy_ssl_verify on, or, aloud, \
        proxy_ssl_verify off
        """
      ])
    #expect(upstream("proxy_ssl_verify_name on; proxy_ssl_trust_system off;").errors.count == 1)
    #expect(upstream("proxy_ssl_pinning none;").errors.count == 1)
    #expect(upstream("", pass: "https://$host").errors.count == 1)
  }

  @Test func `verification off is enough when it is said aloud`() throws {
    let tls = try #require(trust("proxy_ssl_verify off;"))
    #expect(!tls.verifiesChain && !tls.verifiesName && tls.pinning == .none && !tls.trustsSystem)
  }

  @Test func `a pin alone pins the key, and verifies chain and name against the system's anchors`() throws {
    let tls = try #require(trust("proxy_ssl_pin \(aPin);"))
    #expect(tls.verifiesChain && tls.verifiesName && tls.trustsSystem && tls.pinning == .publicKey)
    #expect(tls.pins.map(\.spelling) == [aPin])
    #expect(tls.pins.first?.location == SourceLocation(file: "/etc/x.conf", line: 2, column: 15))
  }

  @Test func `a trust file switches verification on and the system's anchors off`() throws {
    let tls = try #require(trust("proxy_ssl_trusted_certificate ca.pem;"))
    #expect(tls.verifiesChain && tls.verifiesName && !tls.trustsSystem && tls.pinning == .none)
    let both = try #require(trust("proxy_ssl_trusted_certificate ca.pem; proxy_ssl_trust_system on;"))
    #expect(both.trustsSystem)
  }

  @Test func `verification off with a pin means the pin alone`() throws {
    let tls = try #require(trust("proxy_ssl_verify off; proxy_ssl_pin \(aPin);"))
    #expect(!tls.verifiesChain && !tls.verifiesName && !tls.trustsSystem && tls.pinning == .publicKey)
  }

  @Test func `the name check can be left out and the chain kept`() throws {
    let tls = try #require(trust("proxy_ssl_verify on; proxy_ssl_verify_name off;"))
    #expect(tls.verifiesChain && !tls.verifiesName && tls.trustsSystem)
  }

  @Test(arguments: [
    (
      "proxy_ssl_pinning public_key;",
      "2:1 \"proxy_ssl_pinning public_key\" without a pin | add proxy_ssl_pin; `sallyport pin FILE` or `sallyport pin HOST:PORT` prints it"
    ),
    (
      "proxy_ssl_pinning none;\nproxy_ssl_pin \(aPin);",
      "3:1 a pin is given, but \"proxy_ssl_pinning none\" disregards it | remove one of the two; the other is at /etc/x.conf:2:1"
    ),
    (
      "proxy_ssl_pin \(aPin);\nproxy_ssl_pinning certificate;",
      "3:1 `proxy_ssl_pinning certificate` is not supported yet | pin the key: proxy_ssl_pinning public_key"
    ),
    (
      "proxy_ssl_verify off;\nproxy_ssl_trusted_certificate a;",
      "2:1 \"proxy_ssl_verify off\" beside \"proxy_ssl_trusted_certificate\" | anchors that nothing is verified against: remove one of the two; the other is at /etc/x.conf:3:1"
    ),
    (
      "proxy_ssl_verify off;\nproxy_ssl_trust_system on;",
      "2:1 \"proxy_ssl_verify off\" beside \"proxy_ssl_trust_system\" | anchors that nothing is verified against: remove one of the two; the other is at /etc/x.conf:3:1"
    ),
    (
      "proxy_ssl_verify on;\nproxy_ssl_trust_system off;",
      "3:1 the upstream's chain has nothing to verify against | give proxy_ssl_trusted_certificate, or leave out proxy_ssl_trust_system off"
    ),
    (
      "proxy_ssl_verify on;\nproxy_ssl_certificate_key k;",
      "3:1 \"proxy_ssl_certificate_key\" without \"proxy_ssl_certificate\" | name the certificate that the key belongs to"
    ),
    (
      "proxy_ssl_verify on; proxy_ssl_allow_invalid on;",
      "2:22 `proxy_ssl_allow_invalid` is not supported yet | pin the key, and give the upstream's CA with proxy_ssl_trusted_certificate"
    ),
    (
      "proxy_ssl_verify on; proxy_ssl_pin chain \(aPin);",
      "2:36 `proxy_ssl_pin chain` is not supported yet | pin the key of the upstream itself"
    ),
    (
      "proxy_ssl_pin cert:00;",
      "2:15 a pin of a certificate's hash (\"cert:\") is not supported yet | pin its key: `sallyport pin FILE` prints it"
    ),
    (
      "proxy_ssl_verify on; proxy_ssl_certificate $ssl_server_name.pem;",
      "2:44 variables in \"proxy_ssl_certificate\" are not supported yet | name a file"
    ),
  ])
  func `a contradiction in the trust of an upstream is refused`(lines: String, problem: String) {
    let loaded = upstream(lines)
    #expect(loaded.problems == [problem])
    #expect(loaded.settings == nil)
  }

  @Test(arguments: ["sha256//AAAA", "sha256/!", "sha256:", "spki:00", "sha1/x", "credential:a/b", "store:x"])
  func `a malformed pin is refused at its place`(pin: String) {
    let loaded = upstream("proxy_ssl_pin \(pin);")
    #expect(loaded.errors.count == 1)
    #expect(loaded.errors.first?.hasPrefix("2:15 ") == true)
  }

  @Test func `a name check of an upstream that is not verified is warned of`() {
    #expect(
      upstream("proxy_ssl_verify off;\nproxy_ssl_verify_name on;").problems == [
        "3:1 warning: \"proxy_ssl_verify_name on\" has no effect beside proxy_ssl_verify off | anyone can write a name into a certificate that nobody verifies"
      ])
  }

  @Test func `TLS of an upstream that is asked without TLS is warned of, inherited or not`() {
    #expect(
      upstream("proxy_ssl_pin \(aPin);", pass: "http://up.example").problems == [
        "2:1 warning: \"proxy_ssl_pin\" has no effect: the upstream is asked without TLS | proxy_pass https://…, at /etc/x.conf:3:1"
      ])
    #expect(
      LoadedText("http { proxy_ssl_verify on; server { location / { proxy_pass http://a.example; } } }").problems == [])
  }

  @Test func `a group's name that stands in for a server's is warned of`() {
    let text = "http { upstream app { server a.example:443; }\nserver { location / { proxy_ssl_verify on;\n"
    #expect(
      LoadedText(text + "proxy_pass https://app; } } }").problems == [
        "3:1 warning: the upstream's certificate must be for \"app\", the name of the group | say which name it has: proxy_ssl_name a.example;"
      ])
    #expect(LoadedText(text + "proxy_ssl_name a.example; proxy_pass https://app; } } }").problems == [])
  }

  @Test func `TLS to port 80 of a group is warned of`() {
    #expect(
      LoadedText(
        "http { upstream a.example {\nserver a.example; }\nserver { location / { proxy_ssl_verify on; proxy_pass https://a.example; } } }"
      ).problems == [
        "2:1 warning: a.example:80 is asked for TLS at port 80 | in an upstream block the port is 80 unless said: write a.example:443"
      ])
  }

  @Test func `an inner level that gives a pin takes none of the outer ones`() throws {
    let other = "spki:0000000000000000000000000000000000000000000000000000000000000001"
    let loaded = LoadedText(
      "http { proxy_ssl_pin \(aPin); server { location / { proxy_ssl_pin \(other); proxy_pass https://a.example; } "
        + "location /b { proxy_pass https://a.example; } } }")
    let locations = try #require(loaded.settings?.http.servers.first?.root.locations)
    let pins = locations.map { location -> [String] in
      guard case .proxy(let pass) = location.action else { return [] }
      return pass.tls?.pins.map(\.spelling) ?? []
    }
    #expect(pins == [[other], [aPin]])
  }
}
