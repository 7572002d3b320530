import Crypto
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct Metrics {
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
    _ = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_crl crl.pem;
        proxy_ssl_trusted_certificate ca.pem; proxy_ssl_verify on;
        location / { proxy_pass https://127.0.0.1:\(upstream.port); proxy_ssl_name up.test; }
        location /wrong/ { proxy_pass https://127.0.0.1:\(upstream.port)/; proxy_ssl_name other.test; }
        location /bob/ { ssl_client_allow cn=bob; return 204; }
      }
      server { listen 127.0.0.1:\(inside); location = /metrics { metrics; } }
      """)
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

  @Test func `no counter falls when a reload takes away what it counts and another restores it`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port(), inside = try scene.port(), dead = try scene.port()
    let shown = "server { listen 127.0.0.1:\(inside); location = /metrics { metrics; } }"
    let counted = """
      upstream dead { server 127.0.0.1:\(dead); }
      server { listen 127.0.0.1:\(port); server_name counted; location / { return 200; }
        location /dead { proxy_pass http://dead; } }
      """
    let daemon = try await Sallyport.start(scene, configuration(shown + counted))
    for path in ["/", "/", "/dead"] { _ = try await scene.curl(["http://127.0.0.1:\(port)\(path)"]) }
    func counts() async throws -> [String] {
      try await scene.curl(["http://127.0.0.1:\(inside)/metrics"]).text.split(separator: "\n").map(String.init).filter {
        $0.hasPrefix("sallyport_requests_total{server=\"counted\"") && $0.contains("\"2xx\"")
          || $0.hasPrefix("sallyport_upstream_attempts_total{upstream=\"dead\"") && $0.contains("\"connect\"")
          || $0.hasPrefix("sallyport_upstream_exhausted_total{upstream=\"dead\"")
      }
    }
    try await until("the counts") { try await counts().filter { $0.hasSuffix(" 1") || $0.hasSuffix(" 2") }.count >= 2 }
    let before = try await counts()
    // Without the block and the group, and without anything that shows counts.
    let files = [shown, counted, shown + counted]
    for (turn, file) in files.enumerated() {
      try daemon.rewrite(configuration(file))
      daemon.signal(SIGHUP)
      try await daemon.logged("reconfigured: generation \(turn + 2)")
      if turn == 0 { #expect(try await counts().isEmpty) }
    }
    #expect(try await counts() == before)
  }
}
