import Crypto
import TestSupport
import Testing

@Suite(.staged) struct `Certificates that we present` {
  /// An nginx that asks for a certificate and says whose it was, and a daemon that chooses by `?who=`.
  private func stage(
    _ scene: Scene, _ identity: String, keepalive: Bool = false
  ) async throws -> (port: UInt16, daemon: Sallyport, nginx: NginxUpstream) {
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    _ = try scene.identity("upstream", authority.server(names: ["up.test"]))
    try scene.makeFolder("certs")
    for name in ["alice", "bob"] { _ = try scene.identity("certs/\(name)", authority.client(commonName: name)) }
    _ = try scene.pkcs12("certs/alice", authority.client(commonName: "alice"))
    try scene.write("certs/empty.pem", text: "")
    try scene.write("certs/mixed.pem", text: scene.text("certs/alice.pem"))
    try scene.write("certs/mixed.key", text: scene.text("certs/bob.key"))
    try scene.write("password", text: "\(IdentityFiles.password)\n")
    let (upstream, port) = try (scene.port(), scene.port())
    let nginx = try await NginxUpstream.start(
      scene, ports: [upstream],
      """
      server { listen 127.0.0.1:\(upstream) ssl; ssl_certificate \(scene.path("upstream.pem"));
        ssl_certificate_key \(scene.path("upstream.key")); ssl_client_certificate \(scene.path("anchors.pem"));
        ssl_verify_client optional; return 200 "$ssl_client_verify $ssl_client_s_dn"; }
      """)
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream group { server 127.0.0.1:\(upstream); \(keepalive ? "keepalive 8;" : "") }
        proxy_http_version 1.1; proxy_set_header Connection "";
        server { listen 127.0.0.1:\(port); proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_name up.test;
          location / { proxy_pass https://group; \(identity) } }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    return (port, daemon, nginx)
  }

  @Test func `CVE-2026-86411: a variable chooses the certificate, and connections are never shared between two`()
    async throws
  {
    let scene = try Scene.ofTest()
    let (port, _, _) = try await stage(
      scene, "proxy_ssl_certificate certs/$arg_who.pem; proxy_ssl_certificate_key certs/$arg_who.key;", keepalive: true)
    for who in ["alice", "bob", "alice", "alice", "bob"] {
      let result = try await scene.curl(["http://127.0.0.1:\(port)/?who=\(who)"])
      #expect(result.status == 200 && result.text.hasPrefix("SUCCESS CN=\(who),"), "\(who): \(result.text)")
    }
  }

  @Test func `a PKCS#12 that a variable names is opened with the password file`() async throws {
    let scene = try Scene.ofTest()
    let (port, _, _) = try await stage(
      scene, "proxy_ssl_certificate certs/$arg_who.p12; proxy_ssl_password_file password;")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/?who=alice"]).text.hasPrefix("SUCCESS CN=alice,"))
  }

  @Test func `a certificate that can't be had is 502 with its reason, and nobody is asked without it`() async throws {
    let scene = try Scene.ofTest()
    let (port, daemon, nginx) = try await stage(
      scene, "proxy_ssl_certificate certs/$arg_who.pem; proxy_ssl_certificate_key certs/$arg_who.key;")
    for (who, reason) in [
      ("nobody", "nobody.pem\": cannot be opened"), ("empty", "empty.pem\": empty"),
      ("mixed", "does not belong to the certificate"), ("../upstream", "may not bring \"..\" into a path"),
      ("", "/certs/.pem\": cannot be opened"),
    ] {
      let result = try await scene.curl(["--path-as-is", "http://127.0.0.1:\(port)/?who=\(who)"])
      #expect(result.status == 502, "\(who): \(result.status) \(result.text)")
      try await daemon.logged("[error]", "no certificate to present to the upstream", reason)
    }
    #expect(nginx.accessLog.isEmpty)
    // It is looked for again as soon as somebody asks.
    try scene.write("certs/nobody.pem", text: scene.text("certs/alice.pem"))
    try scene.write("certs/nobody.key", text: scene.text("certs/alice.key"))
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/?who=nobody"]).text.hasPrefix("SUCCESS CN=alice,"))
  }

  @Test func `a certificate that is renewed is presented within seconds, and half a pair is nobody's 502`()
    async throws
  {
    let scene = try Scene.ofTest()
    let (port, _, _) = try await stage(
      scene, "proxy_ssl_certificate certs/$arg_who.pem; proxy_ssl_certificate_key certs/$arg_who.key;")
    func shown() async throws -> String { try await scene.curl(["http://127.0.0.1:\(port)/?who=alice"]).text }
    #expect(try await shown().hasPrefix("SUCCESS CN=alice,"))
    try scene.write("certs/alice.pem", text: scene.text("certs/bob.pem"))
    // Longer than it takes to be looked at again.
    for _ in 0..<30 {
      #expect(try await shown().hasPrefix("SUCCESS CN=alice,"))
      try await Task.sleep(for: .milliseconds(200))
    }
    try scene.write("certs/alice.key", text: scene.text("certs/bob.key"))
    try await until("the other one to be presented", within: .seconds(15)) {
      try await shown().hasPrefix("SUCCESS CN=bob,")
    }
  }

  @Test func `proxy_ssl_certificate_cache says when a file is looked at again`() async throws {
    let scene = try Scene.ofTest()
    let (port, _, _) = try await stage(
      scene,
      """
      proxy_ssl_certificate certs/$arg_who.pem; proxy_ssl_certificate_key certs/$arg_who.key;
      proxy_ssl_certificate_cache off; }
      location /kept { proxy_pass https://group; proxy_ssl_certificate_cache max=1 inactive=1h valid=1h;
      proxy_ssl_certificate certs/$arg_who.pem; proxy_ssl_certificate_key certs/$arg_who.key;
      """)
    func shown(_ path: String, _ who: String) async throws -> String {
      try await scene.curl(["http://127.0.0.1:\(port)/\(path)?who=\(who)"]).text
    }
    for path in ["", "kept"] { #expect(try await shown(path, "alice").hasPrefix("SUCCESS CN=alice,")) }
    for ending in ["pem", "key"] {
      try scene.write("certs/alice.\(ending)", text: scene.text("certs/bob.\(ending)"))
    }
    #expect(try await shown("", "alice").hasPrefix("SUCCESS CN=bob,"))
    #expect(try await shown("kept", "alice").hasPrefix("SUCCESS CN=alice,"))
    // There is room for one, so another one takes its place.
    #expect(try await shown("kept", "bob").hasPrefix("SUCCESS CN=bob,"))
    #expect(try await shown("kept", "alice").hasPrefix("SUCCESS CN=bob,"))
  }

  @Test(arguments: ["store:file:", "engine:pkcs11:pkcs11:object="])
  func `a variable names files, never the key of a store or token`(prefix: String) async throws {
    let scene = try Scene.ofTest()
    let (port, daemon, nginx) = try await stage(
      scene, "proxy_ssl_certificate certs/alice.pem; proxy_ssl_certificate_key $arg_key;")
    func ask(_ key: String) async throws -> CurlResult {
      try await scene.curl(["http://127.0.0.1:\(port)/?key=\(key)"])
    }
    #expect(try await ask("\(prefix)\(scene.path("certs/alice.key"))").status == 502)
    try await daemon.logged("[error]", "a variable may not name a key of a token or store")
    #expect(nginx.accessLog.isEmpty)
    #expect(try await ask("certs/alice.key").text.hasPrefix("SUCCESS CN=alice,"))
  }

  @Test func `many at once wait for one loading`() async throws {
    let scene = try Scene.ofTest()
    let (port, _, _) = try await stage(
      scene, "proxy_ssl_certificate certs/$arg_who.pem; proxy_ssl_certificate_key certs/$arg_who.key;")
    try await withThrowingTaskGroup(of: String.self) { group in
      for index in 0..<12 {
        let who = index % 2 == 0 ? "alice" : "bob"
        group.addTask { try await scene.curl(["http://127.0.0.1:\(port)/?who=\(who)"]).text + "=\(who)" }
      }
      for try await text in group {
        let who = text.split(separator: "=").last ?? ""
        #expect(text.hasPrefix("SUCCESS CN=\(who),"), "\(text)")
      }
    }
  }

  @Test func `a key of an OpenSSL store serves on both sides`() async throws {
    let scene = try Scene.ofTest()
    let (upstream, _, _) = try await stage(
      scene,
      "proxy_ssl_certificate certs/bob.pem; proxy_ssl_certificate_key \"store:file:\(scene.path("certs/bob.key"))\";")
    #expect(try await scene.curl(["http://127.0.0.1:\(upstream)/"]).text.hasPrefix("SUCCESS CN=bob,"))
    let port = try scene.port()
    let text = configuration(
      """
      server { listen 127.0.0.1:\(port) ssl; ssl_certificate upstream.pem;
        ssl_certificate_key "store:file:\(scene.path("upstream.key"))"; return 200 "stored"; }
      """
    ).replacing("pid sallyport.pid", with: "pid second.pid")
    _ = try await Sallyport.start(scene, text, name: "second")
    let result = try await scene.curl([
      "--cacert", scene.path("anchors.pem"), "--connect-to", "::127.0.0.1:\(port)", "https://up.test/",
    ])
    #expect(result.text == "stored")
    let missing = try scene.check(text.replacing("upstream.key", with: "none.key"))
    #expect(!missing.isValid && missing.contains("OpenSSL finds no private key there"))
  }
}
