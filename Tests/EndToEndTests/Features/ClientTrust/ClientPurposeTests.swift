import Crypto
import Glibc
import TestSupport
import Testing

/// The end of clientAuth in public CAs: `ssl_client_purpose`, and who is told of such certificates.
@Suite(.staged) struct `Certificates that are not for clients` {
  private func server(_ port: UInt16, _ lines: String) -> String {
    """
    server {
      listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(lines)
      location / { return 200 "$ssl_client_verify $ssl_client_s_dn_cn"; }
      location = /metrics { metrics; }
      location = /status { status; }
    }

    """
  }

  @Test(arguments: [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3"]])
  func `any lets them in by rule, and metrics, status and log tell who issued them`(version: [String]) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let web = try scene.identity("web", cast.authority.client(.serverAuthOnly, commonName: "web"))
    let shop = try scene.identity("shop", cast.authority.client(.serverAuthOnly, commonName: "shop"))
    var old = CertificateBuilder(commonName: "old", .leaf([.clientAuth]))
    (old.notBefore, old.notAfter) = (Int64(time(nil)) - 86_400 * 300, Int64(time(nil)) + 86_400 * 5 + 43_200)
    let ending = try scene.identity("ending", old.signed(by: cast.authority.root, key: .generate()))
    let stranger = try scene.identity("stranger", TestAuthority("Evil").client(.serverAuthOnly, commonName: "web"))
    let port = try scene.port(), strict = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      server(
        port, "ssl_client_purpose any; ssl_client_allow cn=web; ssl_client_allow cn=old; ssl_client_allow cn=alice;")
        + server(strict, ""))
    func ask(_ port: UInt16, _ who: IdentityFiles, _ path: String = "/") async throws -> CurlResult {
      try await scene.curl(cast.to(port) + who.curl + version + ["https://localhost\(path)"])
    }
    #expect(try await ask(port, web).text == "SUCCESS web")
    #expect(try await ask(port, shop).status == 403)
    #expect(try await ask(port, stranger).status == 400)
    #expect(try await ask(port, ending).text == "SUCCESS old")
    let refused = try await ask(strict, web)
    #expect(refused.status == 400 && refused.text.contains("The SSL certificate error"))
    let page = try await ask(port, cast.alice, "/metrics").text
    #expect(
      page.contains(#"sallyport_client_certificate_notices_total{notice="purpose",issuer="CN=Test Root"} 3"#), "\(page)"
    )
    #expect(page.contains(#"sallyport_client_certificate_notices_total{notice="ending",issuer="CN=Test Root"} 1"#))
    #expect(!page.contains("Evil"), "a stranger's words are no label")
    let status = try await ask(port, cast.alice, "/status").text
    #expect(
      status.contains("Clients come with certificates that are not for clients (no clientAuth), issued by CN=Test Root")
    )
    #expect(status.contains("Clients come with certificates that end soon, issued by CN=Test Root"))
    try await daemon.logged(
      "[warn]", "a client's certificate is not one for clients: its extended key usage lacks clientAuth", "CN=web")
    try await daemon.logged("[warn]", "a client's certificate ends in 5 days", "CN=old")
    let lines = daemon.errorLog.split(separator: "\n").count { $0.contains("is not one for clients") }
    #expect(lines < 3, "the lines fold")
  }

  @Test func `a session that was made under client is none under any`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    func server(_ name: String, _ lines: String) -> String {
      """
      server { listen 127.0.0.1:\(port) ssl; server_name \(name); \(Cast.tls) ssl_client_allow cn=*; \(lines)
        location / { return 200 $server_name; } }

      """
    }
    _ = try await Sallyport.start(
      scene, configuration(server("a.test", "ssl_client_purpose any;") + server("b.test", "")))
    let web = try scene.identity("web", cast.authority.client(.serverAuthOnly, commonName: "web"))
    for (sni, host, who, expected) in [
      ("a.test", "a.test", web, 200), ("a.test", "b.test", web, 421), ("b.test", "b.test", web, 400),
      ("b.test", "a.test", cast.alice, 421), ("b.test", "b.test", cast.alice, 200),
    ] {
      let answer = try await scene.ask(tls: port, name: sni, identity: who) { try $0.get("/", host: host) }
      #expect(answer.status == expected, "\(sni) to \(host)")
    }
  }

  // MARK: Our own certificate

  @Test func `our own certificate for upstreams is told of by check, status, probe and log`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    let ours = try scene.identity("ours", cast.authority.client(.serverAuthOnly, commonName: "ours"))
    let upstream = try await OpenSSLServer.start(scene, scene.identity("up", cast.authority.server()), "-www")
    let text = configuration(
      """
      server { listen 127.0.0.1:\(port); location = /status { status; }
        proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;
        location / { proxy_pass https://127.0.0.1:\(upstream.port);
          proxy_ssl_certificate ours.pem; proxy_ssl_certificate_key ours.key; }
        location /named/ { proxy_pass https://127.0.0.1:\(upstream.port)/;
          proxy_ssl_certificate $arg_name.pem; proxy_ssl_certificate_key $arg_name.key; }
        location /alice/ { proxy_pass https://127.0.0.1:\(upstream.port)/;
          proxy_ssl_certificate alice.pem; proxy_ssl_certificate_key alice.key; } }
      """)
    let words = "is not one for clients: an upstream that looks"
    let check = try scene.check(text)
    #expect(check.isValid && check.contains(words), "\(check)")
    #expect(check.lines.count { $0.contains(words) } == 1, "alice's is one for clients")
    let daemon = try await Sallyport.start(scene, text)
    try await daemon.logged("[warn]", "CN=ours", words)
    let status = try await scene.curl(["http://127.0.0.1:\(port)/status"]).text
    #expect(status.contains("The certificate that upstreams are shown is not one for clients"), "\(status)")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/named/?name=ours"]).status == 200)
    try await daemon.logged("[warn]", "the certificate presented to the upstream is not one for clients")
    func probe(_ who: IdentityFiles, _ more: String...) async throws -> String {
      try await scene.run(
        Sallyport.binary(),
        [
          "probe", "localhost:\(upstream.port)", "--cafile", scene.path("ca.pem"), "--cert", who.certificate, "--key",
          who.key,
        ]
          + more
      ).everything
    }
    let shown = try await probe(ours)
    #expect(shown.contains("not for clients: its extended key usage lacks clientAuth"), "\(shown)")
    #expect(try await !probe(cast.alice).contains("not for clients"))
    #expect(try await probe(ours, "--json").contains("\"presented_is_for_clients\":false"))
  }
}

/// The same in `stream`, where such a client is refused by an alert.
@Suite(.staged) struct `Certificates that are not for clients, in stream` {
  @Test(arguments: ["-tls1_2", "-tls1_3"]) func `a session by rule, an alert without, and a count of both`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let web = try scene.identity("web", cast.authority.client(.serverAuthOnly, commonName: "web"))
    let (any, strict, inside) = try (scene.port(), scene.port(), scene.port())
    let daemon = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        server { listen 127.0.0.1:\(any) ssl; \(Cast.tls) ssl_client_purpose any; ssl_client_allow cn=web;
          return "$ssl_client_verify|$ssl_client_s_dn_cn|"; }
        server { listen 127.0.0.1:\(strict) ssl; \(Cast.tls) return "in|"; }
        """, http: "server { listen 127.0.0.1:\(inside); location = /metrics { metrics; } }"))
    func ask(_ port: UInt16, _ who: IdentityFiles) async throws -> ToolResult {
      try await scene.run(
        "openssl",
        ["s_client", "-quiet", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-ign_eof", version]
          + who.openssl, input: [])
    }
    #expect(try await ask(any, web).text.contains("SUCCESS|web|"))
    #expect(try await !ask(any, cast.alice).text.contains("|"))
    let refused = try await ask(strict, web)
    #expect(!refused.text.contains("in|") && refused.everything.contains("alert"))
    try await daemon.logged("(26:unsuitable certificate purpose")
    let page = try await scene.curl(["http://127.0.0.1:\(inside)/metrics"]).text
    #expect(
      page.contains(#"sallyport_client_certificate_notices_total{notice="purpose",issuer="CN=Test Root"} 2"#), "\(page)"
    )
  }
}
