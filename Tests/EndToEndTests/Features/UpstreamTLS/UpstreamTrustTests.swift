import Crypto
import Glibc
import TestSupport
import Testing

/// A daemon with a plain listener in front of an HTTPS upstream.
private struct PinningProxy {
  let scene: Scene
  let port: UInt16
  let daemon: Sallyport

  init(_ scene: Scene, to upstream: UInt16, _ trust: String, name: String = "up.test") async throws {
    self.scene = scene
    port = try scene.port()
    daemon = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port);
        location / { proxy_pass https://127.0.0.1:\(upstream); proxy_ssl_name \(name); \(trust) }
      }
      """)
  }

  /// A request whose every part is marked.
  func ask() async throws -> CurlResult {
    try await scene.curl(
      ["-H", "X-Secret: s3cr3t-field", "http://127.0.0.1:\(port)/s3cr3t-path"], input: Array("s3cr3t-body".utf8))
  }
}

private func pin(_ certified: CertifiedKey) -> String {
  Pin.spelling(publicKeyDigest: certified.certificate.spkiSHA256)
}

@Suite(.staged) struct `Trust in the upstream` {
  enum ParseError: Sendable, CaseIterable {
    case wrongPin, wrongName, untrustedCA, pinnedExtra, expired, selfSigned, clientAuthOnly

    var reason: String {
      switch self {
      case .wrongPin, .pinnedExtra: "pin: "
      case .wrongName: "name: "
      case .expired: "expired: "
      case .untrustedCA, .selfSigned, .clientAuthOnly: "chain: "
      }
    }
  }

  @Test(arguments: ParseError.allCases, ["-tls1_2", "-tls1_3"])
  func `a refused upstream has seen no byte of the request`(fault: ParseError, version: String) async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let good = try authority.server(names: ["up.test"])
    var presented = try scene.identity("upstream", good)
    var name = "up.test", pinned = good
    switch fault {
    case .wrongPin: pinned = try authority.server(names: ["up.test"])
    case .wrongName: name = "elsewhere.test"
    case .untrustedCA:
      pinned = try TestAuthority("Stranger").server(names: ["up.test"])
      presented = try scene.identity("upstream", pinned)
    case .pinnedExtra:
      // CVE-2016-2402: a valid certificate of the same CA, with the pinned one thrown in as an extra.
      let other = try authority.server(names: ["up.test"])
      presented = try scene.identity("upstream", other)
      try scene.write("upstream.pem", text: other.certificate.pem + good.certificate.pem)
    case .expired:
      var builder = CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
      builder.notAfter = builder.notBefore + 60
      pinned = try builder.signed(by: authority.root, key: .generate())
      presented = try scene.identity("upstream", pinned)
    case .selfSigned:
      pinned = try CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
        .selfSigned(key: .generate())
      presented = try scene.identity("upstream", pinned)
    case .clientAuthOnly:
      pinned = try CertificateBuilder(commonName: "up.test", .leaf([.clientAuth]), names: [.dns("up.test")])
        .signed(by: authority.root, key: .generate())
      presented = try scene.identity("upstream", pinned)
    }
    let upstream = try await OpenSSLServer.start(scene, presented, version)
    let proxy = try await PinningProxy(
      scene, to: upstream.port, "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin \(pin(pinned));", name: name)
    let result = try await proxy.ask()
    #expect(result.status == 502)
    let line = try await proxy.daemon.logged("[error]", fault.reason, "while SSL handshaking to upstream")
    #expect(line.contains("upstream: \"https://127.0.0.1:\(upstream.port)"))
    #expect(!upstream.log.contains("s3cr3t"))
    // A second one meets no kept session that would let it through.
    #expect(try await proxy.ask().status == 502)
    #expect(!upstream.log.contains("s3cr3t"))
  }

  @Test(arguments: ["up.test\0.evil.test", "evil.test\0up.test", "up.test\0", "*.test\0.evil.test"])
  func `CVE-2026-47778: a name with a NUL is not the upstream's`(name: String) async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let certified = try CertificateBuilder(
      commonName: "mallory", .leaf([.serverAuth]), names: [.raw(.dns, Array(name.utf8))]
    ).signed(by: authority.root, key: .generate())
    let upstream = try await OpenSSLServer.start(scene, scene.identity("upstream", certified), "-tls1_3")
    let proxy = try await PinningProxy(
      scene, to: upstream.port, "proxy_ssl_verify on; proxy_ssl_trusted_certificate anchors.pem;")
    #expect(try await proxy.ask().status == 502)
    try await proxy.daemon.logged("[error]", "while SSL handshaking to upstream")
    #expect(!upstream.log.contains("s3cr3t"))
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"]) func `the pinned upstream of a known CA is trusted`(version: String)
    async throws
  {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let certified = try authority.server(names: ["up.test"])
    let upstream = try await OpenSSLServer.start(scene, scene.identity("upstream", certified), version, "-www")
    let proxy = try await PinningProxy(
      scene, to: upstream.port, "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin \(pin(certified));")
    let result = try await scene.curl(["http://127.0.0.1:\(proxy.port)/"])
    #expect(result.status == 200)
    #expect(result.text.contains("s_server"))
  }

  @Test func `every spelling of a pin means the same key`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let certified = try authority.server(names: ["up.test"])
    _ = try scene.identity("upstream", certified)
    try scene.write("upstream.der", certified.certificate.der)
    try scene.write("wrong.pem", text: authority.server(names: ["up.test"]).certificate.pem)
    try await scene.succeed("openssl", "pkey", "-in", "upstream.key", "-pubout", "-out", "upstream.pub")
    let base64 = pin(certified).dropFirst("sha256//".count)
    let hexadecimal = certified.certificate.spkiSHA256.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
    let (upstream, port) = try (scene.port(), scene.port())
    _ = try await NginxUpstream.start(
      scene, ports: [upstream],
      """
      server { listen 127.0.0.1:\(upstream) ssl; ssl_certificate \(scene.path("upstream.pem"));
        ssl_certificate_key \(scene.path("upstream.key")); return 200 "trusted"; }
      """)
    let spellings = [
      "sha256//\(base64)", "sha256/\(base64)", "sha256:\(base64)", "spki:\(hexadecimal.joined())",
      "spki:\(hexadecimal.joined(separator: ":").uppercased())", "upstream.pem", "upstream.der", "upstream.pub",
    ]
    let common =
      "proxy_pass https://127.0.0.1:\(upstream)/; proxy_ssl_name up.test; proxy_ssl_trusted_certificate anchors.pem;"
    _ = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(port);"
        + spellings.enumerated().map { "location /\($0)/ { \(common) proxy_ssl_pin \($1); }" }.joined()
        + "location /wrong/ { \(common) proxy_ssl_pin wrong.pem; }"
        + "location /spare/ { \(common) proxy_ssl_pin wrong.pem \(spellings[0]); } }")
    for index in spellings.indices {
      #expect(try await scene.curl(["http://127.0.0.1:\(port)/\(index)/"]).text == "trusted", "\(spellings[index])")
    }
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/spare/"]).status == 200)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/wrong/"]).status == 502)
  }

  @Test func `a kept session or connection is not used for a location that trusts otherwise`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let certified = try authority.server(names: ["up.test"])
    _ = try scene.identity("upstream", certified)
    try scene.anchors("strangers", TestAuthority("Stranger"))
    let (upstream, port) = try (scene.port(), scene.port())
    let nginx = try await NginxUpstream.secure(scene, upstream, "ssl_session_cache builtin; return 200 $request_uri;")
    let wrong = try pin(authority.server(names: ["up.test"]))
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream group { server 127.0.0.1:\(upstream); keepalive 4; }
        proxy_http_version 1.1; proxy_set_header Connection ""; proxy_ssl_name up.test;
        proxy_ssl_trusted_certificate anchors.pem;
        server {
          listen 127.0.0.1:\(port);
          location /good { proxy_pass https://group; proxy_ssl_pin \(pin(certified)); }
          location /pin { proxy_pass https://group; proxy_ssl_pin \(wrong); }
          location /name { proxy_pass https://group; proxy_ssl_name other.test; }
          location /anchors { proxy_pass https://group; proxy_ssl_trusted_certificate strangers.pem; }
        }
        """, main: ""
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    for _ in 0..<3 { #expect(try await scene.curl(["http://127.0.0.1:\(port)/good"]).status == 200) }
    for path in ["/pin", "/name", "/anchors"] {
      #expect(try await scene.curl(["http://127.0.0.1:\(port)\(path)"]).status == 502, "\(path)")
    }
    try await daemon.logged("pin: ")
    try await daemon.logged("name: ")
    try await daemon.logged("chain: ")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/good"]).status == 200)
    for path in ["/pin", "/name", "/anchors"] { #expect(!nginx.accessLog.contains("GET \(path)")) }
    // And the good ones did share one connection.
    #expect(nginx.accessLog.contains("|4\n"))
  }

  @Test(arguments: ["TLSv1.2", "TLSv1.3"])
  func `sessions to the upstream are resumed, and the certificate is judged each time`(version: String) async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    _ = try scene.identity("upstream", authority.server(names: ["up.test"]))
    let (upstream, port) = try (scene.port(), scene.port())
    let nginx = try await NginxUpstream.start(
      scene, ports: [upstream],
      """
      server { listen 127.0.0.1:\(upstream) ssl; ssl_certificate \(scene.path("upstream.pem")); ssl_protocols \(version);
        ssl_certificate_key \(scene.path("upstream.key")); return 200 "hello"; }
      """)
    _ = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port);
        proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_name up.test;
        location / { proxy_pass https://127.0.0.1:\(upstream); }
        location /off { proxy_pass https://127.0.0.1:\(upstream); proxy_ssl_session_reuse off; }
      }
      """)
    for _ in 0..<6 { #expect(try await scene.curl(["http://127.0.0.1:\(port)/on"]).status == 200) }
    for _ in 0..<3 { #expect(try await scene.curl(["http://127.0.0.1:\(port)/off"]).status == 200) }
    try await until("nginx's log") { nginx.accessLog.split(separator: "\n").count >= 9 }
    let lines = nginx.accessLog.split(separator: "\n").map {
      $0.split(separator: "|", omittingEmptySubsequences: false)
    }
    let resumed = lines.filter { $0[5] == "r" }.map { $0[0] }
    #expect(resumed.count { $0.contains("/on") } >= 3)
    #expect(!resumed.contains { $0.contains("/off") })
  }

  @Test(arguments: ["pem", "p12", "p12-legacy"]) func `the upstream is shown our certificate`(kind: String) async throws
  {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    _ = try scene.identity("upstream", authority.server(names: ["up.test"]))
    let ours = try authority.client(.viaIntermediate, commonName: "sallyport")
    _ = try scene.identity("ours", ours)
    try scene.pkcs12("ours", ours, strength: kind == "p12-legacy" ? .legacy : .modern)
    try scene.write("password", text: "not this one\n\(IdentityFiles.password)\n")
    let (upstream, port) = try (scene.port(), scene.port())
    _ = try await NginxUpstream.start(
      scene, ports: [upstream],
      """
      server { listen 127.0.0.1:\(upstream) ssl; ssl_certificate \(scene.path("upstream.pem"));
        ssl_certificate_key \(scene.path("upstream.key")); ssl_client_certificate \(scene.path("anchors.pem"));
        ssl_verify_client on; return 200 "$ssl_client_verify $ssl_client_s_dn $ssl_server_name"; }
      """)
    let identity =
      kind == "pem"
      ? "proxy_ssl_certificate ours.pem; proxy_ssl_certificate_key ours.key;"
      : "proxy_ssl_certificate ours.p12; proxy_ssl_password_file password;"
    _ = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port);
        proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_name up.test;
        location / { proxy_pass https://127.0.0.1:\(upstream); \(identity) }
        location /sni { proxy_pass https://127.0.0.1:\(upstream); \(identity) proxy_ssl_server_name on; }
        location /none { proxy_pass https://127.0.0.1:\(upstream); }
      }
      """)
    let result = try await scene.curl(["http://127.0.0.1:\(port)/"])
    #expect(
      result.text == "SUCCESS CN=sallyport,O=Example + Sons,C=SE "
        || result.text == "SUCCESS CN=sallyport,O=Example \\+ Sons,C=SE ")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/sni"]).text.hasSuffix(" up.test"))
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/none"]).status == 400)
  }

  @Test func `an upstream that speaks before the handshake is not spoken to`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad")
      while try !wire.readSome().isEmpty {}
    }
    let proxy = try await PinningProxy(scene, to: upstream.port, "proxy_ssl_trusted_certificate anchors.pem;")
    let result = try await proxy.ask()
    #expect(result.status == 502)
    #expect(!upstream.receivedText.contains("s3cr3t"))
    try await proxy.daemon.logged("[error]", "while SSL handshaking to upstream")
  }
}
