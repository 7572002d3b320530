import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

/// Upstreams whose names only a proxy knows.
@Suite(.staged) struct `Upstreams through a proxy` {
  private static let other = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

  private func start(
    _ scene: Scene, _ lines: String, http: String = "", main: String = ""
  ) async throws -> (port: UInt16, daemon: Sallyport) {
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      log_format via '$status $upstream_addr $upstream_status';
      access_log via.log via;
      \(http)
      server { listen 127.0.0.1:\(port); location / { \(lines) } location = /metrics { metrics; } }
      """, main: main)
    return (port, daemon)
  }

  private func get(_ scene: Scene, _ port: UInt16, _ more: [String] = []) async throws -> CurlResult {
    try await scene.curl(more + ["http://127.0.0.1:\(port)/"])
  }

  private func tlsServer(_ scene: Scene, _ cast: Cast) async throws -> (server: OpenSSLServer, pin: String) {
    let identity = try cast.authority.server(names: ["api.test"])
    let server = try await OpenSSLServer.start(scene, scene.identity("up", identity), "-www")
    return (server, Pin.spelling(publicKeyDigest: identity.certificate.spkiSHA256))
  }

  @Test func `are judged inside the tunnel as if there were none`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (server, pin) = try await tlsServer(scene, cast)
    let proxy = try await ConnectProxyServer.start(scene, "open", ["api.test:8443": server.port])
    let trusts = [
      ("proxy_ssl_trusted_certificate ca.pem;", true), ("proxy_ssl_verify off; proxy_ssl_pin \(pin);", true),
      ("proxy_ssl_trusted_certificate ca.pem; proxy_ssl_pin \(pin);", true),
      ("proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name other.test;", false),
      // The name is never the proxy's.
      ("proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;", false),
      ("proxy_ssl_verify off; proxy_ssl_pin \(Self.other);", false),
    ]
    let locations = trusts.enumerated().map { number, trust in
      "location /\(number)/ { proxy_pass https://api.test:8443/; proxy_ssl_server_name on; \(trust.0) }"
    }
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      log_format via '$status $upstream_addr';
      access_log via.log via;
      server { listen 127.0.0.1:\(port); proxy_via http://127.0.0.1:\(proxy.port); \(locations.joined()) }
      """)
    for (number, trust) in trusts.enumerated() {
      let found = try await scene.curl(["http://127.0.0.1:\(port)/\(number)/"])
      #expect(found.status == (trust.1 ? 200 : 502), "\(trust.0) \(found.status)")
      #expect(found.text.contains("s_server") == trust.1, "\(trust.0)")
    }
    #expect(!proxy.requests.isEmpty)
    #expect(proxy.requests.allSatisfy { $0 == "CONNECT api.test:8443 HTTP/1.1 api.test:8443 - b'' 1" })
    daemon.signal(SIGQUIT)
    // Each worker writes the lines of its own requests.
    try await until("the log") {
      scene.text("via.log").contains("200 api.test:8443\n") && scene.text("via.log").contains("502 api.test:8443\n")
    }
  }

  @Test func `are looked at through the proxy, by probe and by pin`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (server, pin) = try await tlsServer(scene, cast)
    let proxy = try await ConnectProxyServer.start(scene, "auth", ["api.test:8443": server.port])
    let user = try scene.write("user", text: "al:secret\n")
    let file = try scene.write(
      "probe.conf",
      text: configuration(
        """
        server { listen 127.0.0.1:1; proxy_via http://127.0.0.1:\(proxy.port) user_file=user; location / {
          proxy_pass https://api.test:8443; proxy_ssl_trusted_certificate ca.pem; } }
        """))
    let probed = try await scene.sallyport("probe", "--config", file)
    #expect(probed.status == 0 && probed.text.contains("api.test"), "\(probed.everything)")
    let via = ["--via", "http://127.0.0.1:\(proxy.port)"], known = ["--via-user-file", user]
    let pinned = try await scene.run(Sallyport.binary(), ["pin", "api.test:8443"] + via + known)
    #expect(pinned.text == "proxy_ssl_pin \(pin);\n", "\(pinned.everything)")
    let direct = try await scene.run(
      Sallyport.binary(), ["probe", "https://api.test:8443/", "--cafile", scene.path("ca.pem")] + via + known)
    #expect(direct.status == 0, "\(direct.everything)")
    // Without its user, the proxy makes no tunnel.
    let refused = try await scene.run(Sallyport.binary(), ["probe", "--json", "https://api.test:8443/"] + via)
    #expect(refused.status == 3 && refused.text.contains("\"proxy-refused\""), "\(refused.everything)")
    #expect(proxy.requests.allSatisfy { $0.hasPrefix("CONNECT api.test:8443 HTTP/1.1 api.test:8443") })
  }

  @Test func `keep connections, also of HTTP in clear, and ask for each tunnel once`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await ConnectProxyServer.start(scene, "interim", ["app.test:80": upstream.port])
    let (port, _) = try await start(
      scene, "proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection \"\";",
      http: "proxy_via http://127.0.0.1:\(proxy.port); upstream app { server app.test; keepalive 4; }")
    for _ in 0..<8 { #expect(try await get(scene, port).status == 200) }
    #expect((1...2).contains(proxy.requests.count), "\(proxy.requests)")
    // With a worker each at most, and the metrics name the server as the proxy knows it.
    let page = try await scene.page(port, "/metrics").text
    #expect(page.contains("server=\"app.test:80\""))
  }

  @Test func `log in with the user of a file, which is loaded again when it changes`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await ConnectProxyServer.start(scene, "auth", ["app.test:80": upstream.port])
    try scene.write("user", text: "al:wrong\n")
    let (port, daemon) = try await start(
      scene, "proxy_pass http://app.test; proxy_via http://127.0.0.1:\(proxy.port) user_file=user;")
    #expect(try await get(scene, port).status == 502)
    try await daemon.logged("it refused the credentials: \"HTTP/1.1 407 Proxy Authentication Required\"")
    #expect(proxy.requests == ["CONNECT app.test:80 HTTP/1.1 app.test:80 al:wrong b'' 2"])
    try scene.write("user", text: "al:secret\n")
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await get(scene, port).status == 200)
    #expect(!upstream.receivedText.contains("Proxy-Authorization") && !upstream.receivedText.contains("al:"))
    let log = scene.text("error.log")
    #expect(!log.contains("secret") && !log.contains("wrong"))
    // A file that is damaged has no effect, and the former user serves.
    try scene.write("user", text: "nobody\n")
    daemon.signal(SIGHUP)
    try await daemon.logged("expected one line NAME:PASSWORD")
    #expect(try await get(scene, port).status == 200)
  }

  @Test(arguments: [
    ("refuse", 502, "it refused CONNECT app.test:80: \"HTTP/1.1 403 Forbidden\""),
    ("auth", 502, "it asks for credentials: \"HTTP/1.1 407 Proxy Authentication Required\""),
    ("garbage", 502, "which is no response to CONNECT app.test:80"), ("cut", 502, "it closed the connection"),
    ("endless", 502, "it sent more than 16384 bytes before the tunnel"), ("mute", 504, "timed out"),
    // What the proxy sends behind its head is no response of the upstream's.
    ("early", 502, "upstream sent bytes before a request was made"),
  ]) func `get no byte when the proxy makes no tunnel, and the log names it`(
    mode: String, status: Int, told: String
  ) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await ConnectProxyServer.start(scene, mode, ["app.test:80": upstream.port])
    let (port, daemon) = try await start(
      scene,
      "proxy_pass http://app.test; proxy_via http://127.0.0.1:\(proxy.port); proxy_connect_timeout 2s;")
    let found = try await get(scene, port)
    #expect(found.status == status && !found.text.contains("false"))
    try await daemon.logged(told)
    if mode != "early" { try await daemon.logged("through the proxy 127.0.0.1:\(proxy.port)") }
    #expect(upstream.receivedText.isEmpty)
  }

  @Test func `a tunnel that fails is tried at the next server, and a proxy that is not there is told`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await ConnectProxyServer.start(scene, "open", ["b.test:80": upstream.port])
    let free = try scene.port()
    let (port, daemon) = try await start(
      scene, "proxy_pass http://app; } location /dead { proxy_pass http://a.test; proxy_via http://127.0.0.1:\(free);",
      http: "proxy_via http://127.0.0.1:\(proxy.port); upstream app { server a.test; server b.test backup; }")
    #expect(try await get(scene, port).status == 200)
    try await until("the line") { scene.text("via.log").contains("200 a.test:80, b.test:80 502, 200") }
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/dead"]).status == 502)
    try await daemon.logged("while connecting to the proxy 127.0.0.1:\(free)")
  }

  @Test func `are checked through the proxy`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await ConnectProxyServer.start(scene, "open", ["b.test:80": upstream.port])
    let (port, daemon) = try await start(
      scene, "proxy_pass http://app; health_check interval=1s;",
      http:
        "proxy_via http://127.0.0.1:\(proxy.port); upstream app { zone app 64k; server a.test; server b.test; }")
    try await daemon.logged("server a.test:80 is down: health check failed: no tunnel: it refused CONNECT a.test:80")
    for _ in 0..<4 { #expect(try await get(scene, port).status == 200) }
  }

  @Test func `of stream are reached by a tunnel, TLS and STARTTLS inside it`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    _ = try scene.identity("up", cast.authority.server(names: ["mail.test"]))
    let mail = try await StartTLSServer.start(scene, "smtp", "up")
    let plain = try await StartTLSServer.start(scene, "pop3", "up", "plain")
    let proxy = try await ConnectProxyServer.start(
      scene, "open", ["mail.test:25": mail.port, "pop.test:110": plain.port])
    let (asked, clear) = (try scene.port(), try scene.port())
    _ = try await start(
      scene, "return 204;",
      main: """
        stream { proxy_via http://127.0.0.1:\(proxy.port);
          server { listen 127.0.0.1:\(asked); proxy_pass mail.test:25; proxy_ssl on; proxy_starttls smtp;
            proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name mail.test; }
          server { listen 127.0.0.1:\(clear); proxy_pass pop.test:110; } }
        """)
    func say(_ port: UInt16, _ text: String) async throws -> String {
      try await scene.talk(port) { wire in
        let greeting = String(decoding: (try? wire.readSome()) ?? [], as: UTF8.self)
        try wire.write(text)
        return greeting + String(decoding: (try? wire.readSome()) ?? [], as: UTF8.self)
      }
    }
    // The greeting of a server that speaks first comes with the proxy's head, or behind it.
    #expect(try await say(clear, "QUIT\r\n") == "+OK ready\r\n+OK bye\r\n")
    #expect(try await say(asked, "QUIT\r\n") == "220 mail.test ESMTP\r\n221 bye\r\n")
    #expect(mail.lines("inside") == [#"b'QUIT\r\n'"#] && mail.lines("peer") == ["none"])
  }

  @Test func `alone get the PROXY header, and the proxy doesn't`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      var text = ""
      while !text.contains("\r\n\r\n") { text += String(decoding: try wire.readSome(), as: UTF8.self) }
      try wire.answer("in")
    }
    let proxy = try await ConnectProxyServer.start(scene, "open", ["app.test:80": upstream.port])
    let (port, _) = try await start(
      scene, "proxy_pass http://app.test; proxy_protocol on; proxy_via http://127.0.0.1:\(proxy.port);")
    #expect(try await get(scene, port).text == "in")
    #expect(proxy.requests == ["CONNECT app.test:80 HTTP/1.1 app.test:80 - b'' 1"])
    #expect(upstream.receivedText.hasPrefix("PROXY TCP4 127.0.0.1 127.0.0.1 "))
  }

  @Test func `are told by check, in the policy, in a difference and for a request`() async throws {
    let scene = try Scene.ofTest()
    func text(_ via: String) -> String {
      configuration("server { listen 127.0.0.1:8080; location / { proxy_pass http://only.by.proxy.test; \(via) } }")
    }
    try scene.write("user", text: "al:secret\n")
    try scene.write("old.conf", text: text("proxy_via off;"))
    try scene.write("new.conf", text: text("proxy_via http://127.0.0.1:3128 user_file=user;"))
    let checked = try await scene.sallyport("check", "--config", scene.path("new.conf"))
    #expect(checked.status == 0, "\(checked.everything)")
    #expect(
      checked.everything.contains("the proxy 127.0.0.1:3128 as the user of user, which resolves the upstream's name"),
      "\(checked.everything)")
    let explained = try await scene.sallyport(
      "check", "--config", scene.path("new.conf"), "--explain", "GET http://127.0.0.1:8080/")
    #expect(explained.everything.contains("through the proxy 127.0.0.1:3128"), "\(explained.everything)")
    let diff = try await scene.sallyport(
      "check", "--offline", "--config", scene.path("new.conf"), "--diff", scene.path("old.conf"))
    #expect(
      diff.everything.contains("connections to the upstream go through the proxy 127.0.0.1:3128"), "\(diff.everything)")
  }
}
