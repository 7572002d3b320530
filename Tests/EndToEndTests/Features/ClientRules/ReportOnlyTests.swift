import Crypto
import Glibc
import TestSupport
import Testing

/// `ssl_verify_report_only`: an operator sees who would be refused, before anybody is.
@Suite(.staged) struct `Refusals that are only reported` {
  static let versions = [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3"]]

  private static let locations = """
    location / { proxy_pass UPSTREAM; proxy_set_header X-DN $ssl_client_s_dn; proxy_set_header X-Cert $ssl_client_cert;
      client_identity rfc9440; add_header X-Verdict $ssl_client_verdict; add_header X-Verify $ssl_client_verify; }
    location /bob { ssl_client_allow cn=bob; return 200 "$ssl_client_verdict"; }
    """

  @Test(arguments: versions)
  func `nobody is refused, and log, variable and metrics tell who would be`(version: [String]) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene, server: "ssl_verify_report_only on; location = /metrics { metrics; }", locations: Self.locations)
    let stranger = try scene.identity("stranger", TestAuthority("Other").client(commonName: "admin"))
    func ask(_ path: String, _ who: IdentityFiles?) async throws -> CurlResult {
      try await scene.curl(cast.to(front.port) + (who?.curl ?? []) + version + ["https://localhost\(path)"])
    }

    let alice = try await ask("/", cast.alice)
    #expect(alice.status == 200 && alice["x-verdict"] == "admitted" && alice["x-verify"] == "SUCCESS")
    #expect(front.upstream.receivedText.contains("X-DN: ") && front.upstream.receivedText.contains("Client-Cert: :"))
    let known = front.upstream.receivedText.count

    let nobody = try await ask("/", nil)
    #expect(nobody.status == 200 && nobody["x-verify"] == "NONE")
    #expect(nobody["x-verdict"] == "refused:client sent no required SSL certificate")

    let unknown = try await ask("/", stranger)
    #expect(unknown.status == 200 && unknown["x-verify"]?.hasPrefix("FAILED:") == true)
    #expect(unknown["x-verdict"]?.hasPrefix("refused:client SSL certificate verify error: (") == true)
    // The upstream gets nothing of a certificate that anybody can make.
    let since = front.upstream.receivedText.dropFirst(known)
    #expect(
      since.contains("GET / ") && !since.contains("admin") && !since.contains("BEGIN") && !since.contains("Client-Cert")
    )

    let denied = try await ask("/bob", cast.alice)
    #expect(denied.status == 200 && denied.text.hasPrefix("refused:access forbidden by rule"))
    #expect(try await ask("/bob", stranger).status == 200)

    try await front.daemon.logged("[notice]", "report only: client sent no required SSL certificate")
    try await front.daemon.logged("[notice]", "report only: client SSL certificate verify error", "CN=admin")
    try await front.daemon.logged("[notice]", "report only: access forbidden by rule", "CN=alice")
    let page = try await ask("/metrics", cast.alice).text
    #expect(page.contains("sallyport_client_reports_total{reason=\"certificate\"} 3\n"))
    #expect(page.contains("sallyport_client_reports_total{reason=\"rule\"} 1\n"))
    #expect(page.contains("sallyport_client_refusals_total{reason=\"certificate\"} 0\n"))
  }

  @Test(arguments: versions) func `nobody gets in this way where others are refused`(version: [String]) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      \(Cast.tls) ssl_session_cache shared:s:1m;
      server { listen 127.0.0.1:\(port) ssl; server_name a.test; ssl_verify_report_only on; return 200 "open"; }
      server { listen 127.0.0.1:\(port) ssl; server_name b.test; return 200 "secret"; }
      """)
    func ask(_ name: String, _ more: [String], host: String? = nil) async throws -> Int {
      try await scene.curl(
        cast.to(port) + more + version + (host.map { ["-H", "Host: \($0)"] } ?? []) + ["https://\(name)/"]
      ).status
    }
    #expect(try await ask("a.test", []) == 200)
    #expect(try await ask("b.test", []) == 400)
    #expect(try await ask("a.test", [], host: "b.test") == 421)
    #expect(try await ask("a.test", cast.alice.curl, host: "b.test") == 421)
    #expect(try await ask("b.test", cast.alice.curl, host: "a.test") == 421)
    // A session of the open block is none of the closed one's.
    let speech = version.contains("--tlsv1.3") ? "-tls1_3" : "-tls1_2"
    func session(_ name: String, _ words: [String]) async throws -> String {
      try await scene.run(
        "openssl",
        [
          "s_client", "-quiet", "-connect", "127.0.0.1:\(port)", "-servername", name, "-CAfile", scene.path("ca.pem"),
          speech,
        ] + words, input: Array("GET / HTTP/1.1\r\nHost: \(name)\r\nConnection: close\r\n\r\n".utf8)
      ).text
    }
    #expect(try await session("a.test", ["-sess_out", scene.path("session")]).contains("open"))
    #expect(try await session("b.test", ["-sess_in", scene.path("session")]).contains("400 Bad Request"))
  }

  @Test func `a reload that ends the reports refuses kept connections too`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene, server: "ssl_verify_report_only on;", locations: "location / { proxy_pass UPSTREAM; }")
    let text = scene.text("sallyport.conf").replacing("ssl_verify_report_only on;", with: "")
    let statuses = try await scene.ask(tls: front.port) { client in
      let first = try client.get("/").status
      _ = try scene.write("sallyport.conf", text: text)
      front.daemon.signal(SIGHUP)
      while !front.daemon.errorLog.contains("generation 2") { usleep(10_000) }
      return (first, try? client.get("/").status)
    }
    // The connection ends, or the request is refused.
    #expect(statuses.0 == 200 && statuses.1 ?? 400 == 400)
    let refused = try await scene.curl(cast.to(front.port) + ["https://localhost/"])
    #expect(refused.status == 400)
  }
}
