import ConfigurationSupport
import Crypto
@testable import Features
@testable import Forward
import Observability
import SPIFFE
import TLS
import Testing
@testable import Traffic

/// A server that asks clients for SVIDs; its lines begin in line 3.
private func server(_ lines: String) -> LoadedText {
  LoadedText("http { server { listen 443 ssl; ssl_verify_client on; return 204;\n\n\(lines)\n} }")
}

/// A location of one https upstream; its lines begin in line 2.
private func upstream(_ lines: String, pass: String = "proxy_pass https://up.example") -> LoadedText {
  LoadedText("http { server { listen 80; location / {\n\(lines)\n\(pass);\n} } }")
}

@Suite struct `What a configuration takes of a SPIFFE agent` {
  private let both = "ssl_certificate spiffe:; ssl_client_certificate spiffe:; "
  private let rule = "ssl_client_allow uri=spiffe://example.org/web; "

  @Test func `is an identity for clients, and bundles that judge them`() throws {
    let loaded = server(both + rule)
    #expect(loaded.diagnostics.isEmpty, "\(loaded.problems)")
    let tls = try #require(loaded.settings?.http.servers.first?.tls)
    #expect(tls.workloadTrust == .everyDomain)
    #expect(tls.workloadIdentity?.description == "spiffe:")
    let one = server("ssl_certificate spiffe://a.test/web; ssl_client_certificate spiffe://a.test; " + rule)
    #expect(one.diagnostics.isEmpty, "\(one.problems)")
    #expect(
      one.settings?.http.servers.first?.tls?.workloadTrust
        == .domain(try SPIFFEID(parsing: "spiffe://a.test").trustDomain))
  }

  @Test(arguments: [
    ("ssl_certificate spiffe://a.test; ssl_client_certificate spiffe:;", "is no SPIFFE ID of a workload"),
    ("ssl_certificate spiffe:web; ssl_client_certificate spiffe:;", "is no SPIFFE ID of a workload"),
    ("ssl_certificate spiffe:; ssl_client_certificate spiffe://a.test/web;", "is no trust domain"),
    (
      "ssl_certificate spiffe:; ssl_certificate_key k.pem; ssl_client_certificate spiffe:;",
      "\"ssl_certificate_key\" beside a SPIFFE identity"
    ),
    (
      "ssl_certificate spiffe:; ssl_certificate_key spiffe:; ssl_client_certificate spiffe:;",
      "comes with its certificate"
    ),
    (
      "ssl_certificate spiffe:; ssl_certificate b.p12; ssl_client_certificate spiffe:;",
      "\"ssl_certificate spiffe:\" beside other certificates"
    ),
    (
      "ssl_certificate spiffe:; ssl_client_certificate spiffe:; ssl_trusted_certificate ca.pem;",
      "\"ssl_trusted_certificate\" beside the bundles"
    ),
    ("ssl_certificate spiffe:; ssl_client_certificate spiffe:; ssl_crl crl.pem;", "\"ssl_crl\" beside the bundles"),
    (
      "ssl_certificate spiffe:; ssl_client_certificate spiffe:; ssl_crl_cache /c; ssl_crl_fetch on;",
      "\"ssl_crl_fetch\" beside the bundles"
    ),
    (
      "ssl_certificate spiffe:; ssl_client_certificate spiffe:; ssl_client_pin sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=;",
      "\"ssl_client_pin\" beside the bundles"
    ),
    (
      "ssl_certificate spiffe:; ssl_client_certificate spiffe:; real_client_cert_from 10.0.0.1; real_client_cert_header Client-Cert rfc9440;",
      "\"real_client_cert_from\" beside the bundles"
    ),
  ])
  func `is refused where it contradicts itself`(lines: String, words: String) {
    let loaded = server(lines + " " + rule)
    #expect(loaded.errors.contains { $0.contains(words) }, "\(loaded.problems)")
  }

  @Test func `judges clients, or nobody`() {
    let loaded = LoadedText(
      "http { server { listen 443 ssl; \(both) ssl_verify_client optional_no_ca; return 204; } }")
    #expect(loaded.errors.contains { $0.contains("optional_no_ca") }, "\(loaded.problems)")
  }

  @Test func `warns where every workload would get in`() {
    let warning = "every workload of these trust domains gets in"
    #expect(server(both).diagnostics.contains { $0.severity == .warning && $0.message.contains(warning) })
    let nested = LoadedText(
      "http { server { listen 443 ssl; ssl_verify_client on; \(both) location / { \(rule) return 204; } } }")
    #expect(!nested.diagnostics.contains { $0.message.contains(warning) }, "\(nested.problems)")
  }

  private let trust = "proxy_ssl_trusted_certificate spiffe:; "
  private let id = "proxy_ssl_spiffe_id spiffe://example.org/ns/*/sa/app; "

  @Test func `is bundles and IDs for an upstream`() throws {
    let loaded = upstream(trust + id + "proxy_ssl_certificate spiffe:;")
    #expect(loaded.diagnostics.isEmpty, "\(loaded.problems)")
    let pass = try #require(loaded.settings?.http.servers.first?.root.locations.first?[UpstreamPass.self])
    #expect(
      pass.trust.tls?.trust
        == .workload(.everyDomain, ids: [try SPIFFEIDPattern(parsing: "spiffe://example.org/ns/*/sa/app")]))
    #expect(pass.trust.tls?.workloadIdentity?.description == "spiffe:")
    let grpc = upstream(
      (trust + id).replacing("proxy_", with: "grpc_"), pass: "grpc_pass grpcs://up.example:443")
    #expect(grpc.diagnostics.isEmpty, "\(grpc.problems)")
  }

  @Test(arguments: [
    ("proxy_ssl_trusted_certificate spiffe:;", "nothing says which ID it must have"),
    ("proxy_ssl_spiffe_id spiffe://a/b; proxy_ssl_trusted_certificate ca.pem;", "without the bundles of SPIFFE"),
    ("proxy_ssl_trusted_certificate spiffe:; proxy_ssl_spiffe_id spiffe://a;", "invalid SPIFFE ID \"spiffe://a\""),
    ("proxy_ssl_trusted_certificate spiffe:; proxy_ssl_spiffe_id spiffe://*/b;", "invalid SPIFFE ID"),
    ("proxy_ssl_trusted_certificate spiffe://a; proxy_ssl_spiffe_id spiffe://b/x;", "no upstream can have the ID"),
    ("proxy_ssl_trusted_certificate spiffe://a/x; proxy_ssl_spiffe_id spiffe://a/x;", "is no trust domain"),
    (
      "proxy_ssl_trusted_certificate spiffe:; proxy_ssl_spiffe_id spiffe://a/b; proxy_ssl_trust_system on;",
      "\"proxy_ssl_trust_system\" beside the bundles"
    ),
    (
      "proxy_ssl_trusted_certificate spiffe:; proxy_ssl_spiffe_id spiffe://a/b; proxy_ssl_verify_name on;",
      "\"proxy_ssl_verify_name\" beside the bundles"
    ),
    (
      "proxy_ssl_trusted_certificate spiffe:; proxy_ssl_spiffe_id spiffe://a/b; proxy_ssl_crl x.crl;",
      "\"proxy_ssl_crl\" beside the bundles"
    ),
    (
      "proxy_ssl_trusted_certificate spiffe:; proxy_ssl_spiffe_id spiffe://a/b; proxy_ssl_verify off;",
      "\"proxy_ssl_verify off\" beside"
    ),
    (
      "proxy_ssl_trusted_certificate spiffe:; proxy_ssl_spiffe_id spiffe://a/b; proxy_ssl_pin sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=;",
      "\"proxy_ssl_pin\" beside the bundles"
    ),
    (
      "proxy_ssl_verify on; proxy_ssl_certificate spiffe:; proxy_ssl_certificate_key k.pem;",
      "\"proxy_ssl_certificate_key\" beside a SPIFFE identity"
    ),
    ("proxy_ssl_verify on; proxy_ssl_certificate spiffe://a;", "is no SPIFFE ID of a workload"),
  ])
  func `is refused towards an upstream where it contradicts itself`(lines: String, words: String) {
    let loaded = upstream(lines)
    #expect(loaded.errors.contains { $0.contains(words) }, "\(loaded.problems)")
  }

  @Test(
    arguments: [
      ("unix:/run/agent.sock", "/run/agent.sock"), ("unix:///run/agent.sock", "/run/agent.sock"),
      ("unix:run/agent.sock", nil), ("unix:", nil), ("tcp://127.0.0.1:8081", nil), ("/run/agent.sock", nil),
      ("unix:////x", nil), ("unix:/" + String(repeating: "a", count: 107), nil),
    ] as [(String, String?)])
  func `comes from a unix socket with an absolute path`(text: String, path: String?) {
    #expect(WorkloadSocket.path(in: text) == path)
    let loaded = LoadedText("spiffe_endpoint \"\(text)\"; http { server { listen 80; return 204; } }")
    #expect(loaded.settings?.main.workloadEndpoint == path)
    #expect(loaded.errors.isEmpty == (path != nil))
  }
}
