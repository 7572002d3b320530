import Crypto
import TestSupport
import Testing

/// The same judgement as over HTTP/1, with a server of another maker.
@Suite(.staged) struct `HTTP 2 over TLS to the upstream` {
  /// Starts nghttpd, which serves the file `index` and logs each request.
  private static func upstream(_ scene: Scene, verifies: Bool = false) async throws -> UInt16 {
    let port = try scene.port()
    try scene.makeFolder("site")
    try scene.write("site/index", text: "alive")
    let process = try ChildProcess(
      "nghttpd",
      ["-a", "127.0.0.1", "-d", scene.path("site"), "-v"] + (verifies ? ["-V"] : [])
        + ["\(port)", scene.path("server.key"), scene.path("server.pem")],
      in: scene.folder, environment: ["SSL_CERT_FILE": scene.path("ca.pem")], output: scene.path("nghttpd.out"),
      errors: scene.path("nghttpd.err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: "nghttpd") { scene.text("nghttpd.out") + scene.text("nghttpd.err") }
    try await until("nghttpd to listen") {
      if let ending = process.ending {
        throw ToolFailed(description: "nghttpd: \(ending) \(scene.text("nghttpd.err"))")
      }
      return (try? Wire.dial(port: port)) != nil
    }
    return port
  }

  /// How many sessions came to their first request.
  private static func sessions(_ scene: Scene) -> Int {
    scene.text("nghttpd.out").ranges(of: "recv (stream_id=1) :method").count
  }

  private static func proxy(_ scene: Scene, _ locations: [(name: String, lines: String)]) async throws -> (
    port: UInt16, daemon: Sallyport
  ) {
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        log_format trust "$uri|$status|$upstream_ssl_result";
        access_log trust.log trust;
        server { listen 127.0.0.1:\(port); proxy_http_version 2;
          \(locations.map { "location /\($0.name) { \($0.lines) }" }.joined(separator: "\n")) }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    return (port, daemon)
  }

  @Test func `names, anchors and pins are judged, and no session is shared between different trust`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try scene.identity("server", cast.authority.server(names: ["localhost", "a.test"]))
    try scene.anchors("other", TestAuthority("Other"))
    let upstream = try await Self.upstream(scene)
    let pin = Pin.spelling(publicKeyDigest: server.certified.certificate.spkiSHA256)
    let wrong = Pin.spelling(publicKeyDigest: cast.alice.certified.certificate.spkiSHA256)
    let to = "proxy_pass https://127.0.0.1:\(upstream)/index;"
    let anchored = "\(to) proxy_ssl_trusted_certificate ca.pem;"
    let (port, daemon) = try await Self.proxy(
      scene,
      [
        ("named", "\(anchored) proxy_ssl_name localhost;"), ("again", "\(anchored) proxy_ssl_name localhost;"),
        ("other", "\(anchored) proxy_ssl_name a.test;"), ("misnamed", "\(anchored) proxy_ssl_name wrong.example;"),
        ("strange", "\(to) proxy_ssl_trusted_certificate other.pem; proxy_ssl_name localhost;"),
        ("pinned", "\(anchored) proxy_ssl_name localhost; proxy_ssl_pin \(pin);"),
        ("mispinned", "\(anchored) proxy_ssl_name localhost; proxy_ssl_pin \(wrong);"),
      ])
    for round in 0..<2 {
      for (name, status) in [
        ("named", 200), ("other", 200), ("misnamed", 502), ("strange", 502), ("pinned", 200), ("mispinned", 502),
      ] {
        let result = try await scene.curl(["http://127.0.0.1:\(port)/\(name)"])
        #expect(result.status == status && (status != 200 || result.text == "alive"), "\(round) \(name)")
      }
    }
    #expect(Self.sessions(scene) == 3)
    #expect(daemon.errorLog.contains("wrong.example"))
  }

  @Test func `each client certificate has its sessions`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    _ = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let upstream = try await Self.upstream(scene, verifies: true)
    let (port, _) = try await Self.proxy(
      scene,
      [
        (
          "",
          """
          proxy_pass https://127.0.0.1:\(upstream)/index; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;
          proxy_ssl_certificate $arg_who.pem; proxy_ssl_certificate_key $arg_who.key;
          """
        )
      ])
    for who in ["alice", "bob", "alice", "bob"] {
      #expect(try await scene.curl(["http://127.0.0.1:\(port)/?who=\(who)"]).text == "alive")
    }
    #expect(Self.sessions(scene) == 2)
  }

  @Test(arguments: [("http/1.1", "no application protocol"), (nil, "upstream chose no protocol by ALPN, not h2")])
  func `an upstream that doesn't choose HTTP 2 gets no request`(protocols: String?, reason: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let identity = try scene.identity("server", cast.authority.server())
    let server =
      if let protocols {
        try await OpenSSLServer.start(scene, identity, "-alpn", protocols)
      } else {
        try await OpenSSLServer.start(scene, identity)
      }
    let (port, daemon) = try await Self.proxy(
      scene,
      [
        (
          "",
          "proxy_pass https://127.0.0.1:\(server.port); proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;"
        )
      ])
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/s3cr3t"], input: Array("s3cr3t".utf8)).status == 502)
    try await daemon.logged("[error]", reason)
    #expect(!server.log.contains("s3cr3t") && !server.log.contains("PRI *"))
  }
}
