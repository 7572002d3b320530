@testable import Traffic
@testable import Forward
@testable import Features
import ConfigurationSupport
import Crypto
import TLS
import Testing

@testable import ACME

@Suite struct `acme_issuer and acme_certificate` {
  private func load(_ http: String) -> LoadedText { LoadedText("http { \(http) }") }

  private func server(_ lines: String, names: String = "server_name a.test www.a.test;") -> String {
    "server { listen 127.0.0.1:443 ssl; \(names) \(lines) return 204; }"
  }

  private let issuer = "acme_issuer ca { uri https://ca.test/dir; state_path /var/acme; }"
  private let shown = "ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;"

  @Test func `the variables stand for one file of the issuer's folder`() throws {
    let loaded = load(issuer + server("acme_certificate ca; \(shown)"))
    let settings = try #require(loaded.settings, "\(loaded.errors)")
    let certificate = try #require(settings.http[ACMESettings.self].certificates.first)
    #expect(certificate.names == [.dns("a.test"), .dns("www.a.test")] && certificate.key == .ecdsa256)
    let source = try #require(settings.http.servers[0].tls?.certificates.first)
    #expect("\(source.certificate)" == certificate.path && source.key == nil && source.isAwaited)
    #expect(certificate.path.hasPrefix("/var/acme/a.test-") && certificate.path.hasSuffix(".pem"))
  }

  @Test func `equal lines share a certificate, and other names or keys have their own`() throws {
    let loaded = load(
      issuer + server("acme_certificate ca a.test; \(shown)") + server("acme_certificate ca A.TEST; \(shown)")
        + server("acme_certificate ca a.test key=rsa:2048; \(shown)")
        + server("acme_certificate ca 192.0.2.1; \(shown)"))
    let all = try #require(loaded.settings, "\(loaded.errors)").http[ACMESettings.self].certificates
    #expect(all.count == 3 && Set(all.map(\.path)).count == 3)
    #expect(all[2].names == [.ip("192.0.2.1")])
  }

  @Test(arguments: [
    ("acme_certificate other; ", "there is no acme_issuer \"other\""),
    ("acme_certificate ca a.test key=dsa; ", "unknown kind of key"),
    ("acme_certificate ca *.a.test; ", "not possible by http-01"),
    ("acme_certificate ca a_b.test; ", "no name for a certificate"),
    ("", "in a server without \"acme_certificate\""),
    ("ssl_reload off; acme_certificate ca a.test; ", "beside \"ssl_reload off\""),
  ])
  func `what can't be is refused`(lines: String, words: String) {
    let loaded = load(issuer + server(lines + shown))
    #expect(loaded.settings == nil && loaded.errors.contains { $0.contains(words) }, "\(loaded.errors)")
  }

  @Test func `a name with a leading dot is asked for with www, and an IPv6 address without brackets`() throws {
    func names(_ lines: String, names: String = "") throws -> [ACMEIdentifier] {
      let loaded = load(issuer + server("acme_certificate ca \(lines); \(shown)", names: names))
      #expect(!loaded.problems.contains { $0.contains("suspicious") }, "\(loaded.problems)")
      return try #require(loaded.settings?.http[ACMESettings.self].certificates.first).names
    }
    let dotted: [ACMEIdentifier] = [.dns("a.test"), .dns("www.a.test")]
    #expect(try names("", names: "server_name .a.test;") == dotted)
    #expect(try names("", names: "server_name .a.test www.a.test b.test;") == dotted + [.dns("b.test")])
    #expect(try names(".a.test") == dotted)
    #expect(try names("", names: "server_name [2001:DB8::1] 192.0.2.1;") == [.ip("2001:db8::1"), .ip("192.0.2.1")])
    #expect(try names("2001:db8::1 [::2]") == [.ip("2001:db8::1"), .ip("::2")])
  }

  @Test func `a server without names has none to ask for, and a wildcard of it is told`() {
    #expect(
      load(issuer + server("acme_certificate ca; \(shown)", names: "")).errors.contains { $0.contains("has no name") })
    #expect(
      load(issuer + server("acme_certificate ca; \(shown)", names: "server_name ~x;")).errors.contains {
        $0.contains("no name for a certificate")
      })
  }

  @Test(arguments: [
    ("acme_issuer ca { }", "has no \"uri\""), ("acme_issuer ca { uri http://ca.test/; }", "no https URL"),
    ("acme_issuer ca { uri https://a/; state_path off; }", "invalid folder"),
    ("acme_issuer ca { uri https://a/; challenge dns-01; }", "dns-01 needs a program"),
    ("acme_issuer ca { uri https://a/; challenge dns-01 x; }", "\"x\" is no program for dns-01"),
    ("acme_issuer ca { uri https://a/; challenge http-01 /bin/x; }", "invalid challenge"),
    ("acme_issuer ca { uri https://a/; challenge http-02; }", "invalid challenge"),
    ("acme_issuer ca { uri https://a/; contact nobody; }", "no address of mail"),
    ("acme_issuer ca { uri https://a/; profile x always; }", "invalid parameter"),
    ("acme_issuer ../x { uri https://a/; }", "invalid name"),
    ("acme_issuer ca { uri https://a/; } acme_issuer ca { uri https://b/; }", "duplicate acme_issuer"),
    ("acme_issuer ca { uri https://a/; listen 80; }", "not allowed here"),
  ])
  func `issuers are checked`(issuer: String, words: String) {
    let loaded = load(issuer + "server { listen 127.0.0.1:80; return 204; }")
    #expect(loaded.errors.contains { $0.contains(words) }, "\(loaded.errors)")
  }

  @Test func `dns-01 takes wildcards, and no addresses`() throws {
    let issuer = "acme_issuer ca { uri https://ca.test/dir; challenge dns-01 /bin/x; }"
    let loaded = load(issuer + server("acme_certificate ca *.a.test a.test; \(shown)"))
    let certificate = try #require(loaded.settings?.http[ACMESettings.self].certificates.first, "\(loaded.errors)")
    #expect(certificate.names == [.dns("*.a.test"), .dns("a.test")])
    #expect(certificate.issuer.challenge == .dns01(program: "/bin/x"))
    let address = load(issuer + server("acme_certificate ca 192.0.2.1; \(shown)"))
    #expect(address.errors.contains { $0.contains("is not possible by dns-01") }, "\(address.errors)")
  }

  @Test func `one of the two variables alone is refused, but for the certificate's`() {
    let key = "ssl_certificate c.pem; ssl_certificate_key $acme_certificate_key;"
    #expect(load(issuer + server("acme_certificate ca; \(key)")).errors.contains { $0.contains("belong together") })
    let certificate = "ssl_certificate $acme_certificate; ssl_certificate_key k.pem;"
    #expect(
      load(issuer + server("acme_certificate ca; \(certificate)")).errors.contains { $0.contains("belong together") })
    #expect(load(issuer + server("acme_certificate ca; ssl_certificate $acme_certificate;")).settings != nil)
  }

  @Test func `no response can show the key`() {
    let text = issuer + "server { listen 127.0.0.1:80; return 200 $acme_certificate_key; }"
    #expect(load(text).errors.contains { $0.contains("unknown \"acme_certificate_key\" variable") })
  }
}
