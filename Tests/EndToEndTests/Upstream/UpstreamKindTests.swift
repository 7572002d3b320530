import TestSupport
import Testing

@Suite(.staged) struct `Kinds of upstream` {
  @Test(arguments: ["http", "https", "unix"]) func `nginx is an upstream, whatever the way to it`(kind: String)
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (upstream, port) = try (scene.port(), scene.port())
    let socket = scene.path("up.sock")
    try scene.makeFolder("site")
    for size in [0, 100, 300_000] { try scene.write("site/\(size)", Pattern.bytes(size)) }
    let listen =
      switch kind {
      case "unix": "unix:\(socket)"
      case "https":
        "127.0.0.1:\(upstream) ssl; ssl_certificate \(scene.path("server.pem")); ssl_certificate_key \(scene.path("server.key"))"
      default: "127.0.0.1:\(upstream)"
      }
    let nginx = try await NginxUpstream.start(
      scene, ports: kind == "unix" ? [] : [upstream], sockets: kind == "unix" ? [socket] : [],
      "server { listen \(listen); root \(scene.path("site")); location /gone { return 410; } }")
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream nginx { server \(kind == "unix" ? "unix:\(socket)" : "127.0.0.1:\(upstream)"); keepalive 4; }
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
          location / { proxy_pass \(kind == "https" ? "https" : "http")://nginx; \(PlainProxy.kept)
            proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost; } }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    func ask(_ path: String, _ arguments: [String] = [], input: [UInt8]? = nil) async throws -> CurlResult {
      try await scene.curl(
        cast.to(port) + cast.alice.curl + arguments + ["https://localhost\(path)"], input: input)
    }
    for size in [0, 100, 300_000] {
      #expect(Pattern.equal(try await ask("/\(size)").body, Pattern.bytes(size)))
    }
    #expect(try await ask("/300000", ["-I"])["Content-Length"] == "300000")
    #expect(try await ask("/none").status == 404)
    #expect(try await ask("/gone").status == 410)
    #expect(try await ask("/100", input: Pattern.bytes(100)).status == 405)
    let tag = try #require(try await ask("/100")["ETag"])
    #expect(try await ask("/100", ["-H", "If-None-Match: \(tag)"]).status == 304)
    // All of it over one connection.
    try await until("nginx's log") { nginx.accessLog.split(separator: "\n").count == 9 }
    #expect(nginx.accessLog.contains("|9\n"))
    #expect(!daemon.errorLog.contains("[error]"))
  }

  @Test func `an upstream that sends garbage is a 502, and what it sent stays here`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, number in
      _ = try wire.request()
      try wire.write(Array(Pattern.bytes(40_000 + number)[number...]))
      while try !wire.readSome().isEmpty {}
    }
    let proxy = try await PlainProxy(scene, to: upstream.port)
    for _ in 0..<10 {
      let result = try await proxy.curl("/")
      #expect(result.status == 502 && result.text.contains("502 Bad Gateway"))
    }
    try await proxy.daemon.logged("[error]", "upstream sent invalid header")
  }

  @Test func `CVE-2026-1642: plain text before the TLS handshake is no answer`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try scene.port()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen")
      _ = try wire.readToEnd()
    }
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); location / { proxy_pass https://127.0.0.1:\(upstream.port);
        proxy_ssl_trusted_certificate ca.pem; } }
      """)
    let answer = try await scene.curl(["http://127.0.0.1:\(port)/s3cr3t"])
    #expect(answer.status == 502 && !answer.text.contains("stolen"))
    try await daemon.logged("[error]", "SSL_do_handshake() failed")
    #expect(!upstream.receivedText.contains("s3cr3t"))
  }

  @Test func `bytes on a kept TLS connection before a request poison it`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try scene.port()
    let inner = try await scene.listening(.poison)
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream kept { server 127.0.0.1:\(inner); keepalive 4; }
        server { listen 127.0.0.1:\(port); location / { proxy_pass https://kept; \(PlainProxy.kept)
          proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost; } }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/one"]).text == "/one")
    try await until("the connection to be dropped") { scene.text("poison.out").contains("dropped") }
    for path in ["/two", "/three", "/four"] {
      #expect(try await scene.curl(["http://127.0.0.1:\(port)\(path)"]).text == path)
    }
  }
}
