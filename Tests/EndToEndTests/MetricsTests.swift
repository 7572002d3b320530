import Crypto
import Glibc
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct Metrics {
  @Test func `verdicts on both doors and the age of lists are told`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let stranger = try scene.identity("mallory", TestAuthority("Other").client())
    var list = RevocationListBuilder(revoking: [bob.certified.certificate])
    list.nextUpdate = Int64(time(nil)) + 86_400
    try scene.write("crl.pem", text: list.pem(signedBy: cast.authority.root))
    let upstream = try await OpenSSLServer.start(
      scene, scene.identity("up", cast.authority.server(names: ["up.test"])), "-www")
    let port = try scene.port(), inside = try scene.port()
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        server {
          listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_crl crl.pem;
          proxy_ssl_trusted_certificate ca.pem; proxy_ssl_verify on;
          location / { proxy_pass https://127.0.0.1:\(upstream.port); proxy_ssl_name up.test; }
          location /wrong/ { proxy_pass https://127.0.0.1:\(upstream.port)/; proxy_ssl_name other.test; }
          location /bob/ { ssl_client_allow cn=bob; return 204; }
        }
        server { listen 127.0.0.1:\(inside); location = /metrics { metrics; } }
        """))
    func ask(_ path: String, _ who: IdentityFiles?) async throws -> Int {
      try await scene.curl(cast.to(port) + (who?.curl ?? []) + ["https://localhost\(path)"]).status
    }
    #expect(try await ask("/", cast.alice) == 200)
    #expect(try await ask("/wrong/", cast.alice) == 502)
    #expect(try await ask("/bob/", cast.alice) == 403)
    #expect(try await ask("/", bob) == 400)
    #expect(try await ask("/", stranger) == 400)
    #expect(try await ask("/", nil) == 400)
    let page = try await scene.curl(["http://127.0.0.1:\(inside)/metrics"])
    for line in [
      "sallyport_generation 1", #"sallyport_client_handshakes_total{verdict="verified"} 3"#,
      #"sallyport_client_handshakes_total{verdict="refused"} 2"#,
      #"sallyport_client_handshakes_total{verdict="absent"} 1"#,
      #"sallyport_client_refusals_total{reason="certificate"} 3"#,
      #"sallyport_client_refusals_total{reason="rule"} 1"#,
      #"sallyport_upstream_handshakes_total{result="trusted"} 1"#,
      #"sallyport_upstream_handshakes_total{result="name"} 1"#,
      #"sallyport_crl_end_timestamp_seconds{side="client",issuer="CN=Test Root"} \#(list.nextUpdate)"#,
      #"sallyport_certificate_end_timestamp_seconds{side="client",use="shown",server="localhost",subject="CN=localhost"} "#,
    ] {
      #expect(page.text.contains(line), "\(line)")
    }
    #expect(page.response["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8")
    #expect(try await scene.curl(["-X", "POST", "http://127.0.0.1:\(inside)/metrics"]).status == 405)
  }
}
