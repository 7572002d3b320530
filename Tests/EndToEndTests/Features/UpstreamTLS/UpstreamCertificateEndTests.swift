import Crypto
import Glibc
import TestSupport
import Testing

/// A kept connection, or a tunnel, outlives what its upstream was judged by in the handshake.
@Suite(
  .staged,
  .disabled(if: Sanitizer.isUsed, "a sanitizer does not run beside a preloaded library"))
struct `Upstreams whose certificate ends` {
  enum End: CaseIterable, Sendable {
    case certificate, list
    var reason: String {
      switch self {
      case .certificate: "(10:certificate has expired"
      case .list: "(12:CRL has expired"
      }
    }
  }

  private struct Part {
    let scene: Scene
    let authority: TestAuthority
    let certified: CertifiedKey
    let port: UInt16
    let daemon: Sallyport

    /// An upstream with TLS, whose certificate or whose CA's list ends in a day.
    init(_ scene: Scene, _ end: End, version: String = "", lines: String = "") async throws {
      self.scene = scene
      authority = try TestAuthority()
      try scene.anchors("ca", authority)
      var builder = CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
      let now = Int64(time(nil))
      if end == .certificate { builder.notAfter = now + 86_400 }
      certified = try builder.signed(by: authority.root, key: .generate())
      _ = try scene.identity("up", certified)
      let echo = try ScriptedUpstream.webSocketEcho(scene), upstream = try scene.port()
      _ = try await NginxUpstream.start(
        scene, ports: [upstream],
        """
        server { listen 127.0.0.1:\(upstream) ssl\(version.contains("2") ? " http2" : ""); keepalive_timeout 1h;
          ssl_certificate \(scene.path("up.pem")); ssl_certificate_key \(scene.path("up.key"));
          location /plain { return 200 "kept $connection_requests"; }
          location / { proxy_pass http://127.0.0.1:\(echo.port); proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; } }
        """)
      port = try scene.port()
      let crl = end == .list ? "proxy_ssl_crl crl.pem;" : ""
      if end == .list { try Self.list(scene, authority, number: 1, until: now + 86_400) }
      // Each worker keeps connections of its own.
      daemon = try await Sallyport.start(
        scene,
        configuration(
          """
          upstream up { server 127.0.0.1:\(upstream); keepalive 8; keepalive_timeout 1h; }
          log_format day "$time_iso8601"; access_log day.log day;
          server { listen 127.0.0.1:\(port);
            location / { proxy_pass https://up; proxy_ssl_name up.test; proxy_ssl_trusted_certificate ca.pem; \(crl)
              \(version) \(lines) \(version.isEmpty ? Upgrades.upgrading : "") } }
          """
        ).replacing("worker_processes 2;", with: "worker_processes 1;"),
        environment: try await ClockJump.environment(scene))
    }

    static func list(_ scene: Scene, _ authority: TestAuthority, number: Int, until end: Int64) throws {
      var list = RevocationListBuilder(revoking: [], number: number)
      list.nextUpdate = end
      rename(try scene.write("crl.new", text: list.pem(signedBy: authority.root)), scene.path("crl.pem"))
    }

    func get() async throws -> CurlResult { try await scene.curl(["http://127.0.0.1:\(port)/plain"]) }

    /// How many requests of `get` have reached the upstream.
    var arrived: Int { scene.text("nginx/access.log").split(separator: "\n").count { $0.hasPrefix("GET /plain ") } }

    func tunnel() throws -> Wire {
      let wire = try Wire.dial(port: port)
      guard try wire.openWebSocket("/").status == 101, try echoes(wire) else { throw WireError.silent }
      return wire
    }

    func echoes(_ wire: Wire) throws -> Bool {
      try wire.write(WebSocket.frame(2, [7], mask: [1, 2, 3, 4]))
      return try wire.webSocketFrame()?.payload == [7]
    }
  }

  @Test(arguments: End.allCases, ["", "proxy_http_version 2;"])
  func `a kept connection gets no further request`(end: End, version: String) async throws {
    let scene = try Scene.ofTest(), part = try await Part(scene, end, version: version)
    #expect(try await part.get().text == "kept 1")
    #expect(try await part.get().text == "kept 2")
    try await until("the upstream to note both") { part.arrived == 2 }
    try scene.write("clock", text: "+2d\n")
    // The very first one, before anything but the request itself looks at the connection.
    #expect(try await part.get().status == 502)
    try await part.daemon.logged("upstream SSL certificate verify error", end.reason)
    #expect(part.arrived == 2)
    guard end == .list else { return }
    try Part.list(scene, part.authority, number: 2, until: Int64(time(nil)) + 10 * 86_400)
    part.daemon.signal(SIGHUP)
    try await part.daemon.logged("reconfigured: generation 2")
    #expect(try await part.get().status == 200)
  }

  @Test(arguments: End.allCases, [false, true])
  func `a tunnel is told, and cut where that is said`(end: End, cuts: Bool) async throws {
    let scene = try Scene.ofTest()
    let part = try await Part(scene, end, lines: cuts ? "proxy_ssl_revoked_connections close;" : "")
    let tunnel = try await offPool { try part.tunnel() }
    try scene.write("clock", text: "+2d\n")
    try await part.daemon.logged(
      "the upstream is not trusted any more, \(cuts ? "so its request in progress is cut" : "and its request in progress goes on")",
      end.reason)
    if cuts {
      #expect(try await offPool { try tunnel.isClosedByPeer() })
    } else {
      #expect(try await offPool { try part.echoes(tunnel) })
    }
  }

  @Test func `a newer list of the generation that serves keeps a tunnel, and one that revokes its upstream cuts it`()
    async throws
  {
    let scene = try Scene.ofTest()
    let part = try await Part(scene, .list, lines: "proxy_ssl_revoked_connections close;"), now = Int64(time(nil))
    let tunnel = try await offPool { try part.tunnel() }, day = ClockJump.day(2).replacing("/", with: "-")
    try Part.list(scene, part.authority, number: 2, until: now + 10 * 86_400)
    part.daemon.signal(SIGHUP)
    try await part.daemon.logged("reconfigured: generation 2")
    try scene.write("clock", text: "+2d\n")
    try await until("a request of the new time, and the tick after it") {
      _ = try await part.get()
      return scene.text("day.log").split(separator: "\n").count { $0.hasPrefix(day) } > 1
    }
    #expect(try await offPool { try part.echoes(tunnel) })
    var list = RevocationListBuilder(
      revoking: [part.certified.certificate], number: 3)
    list.nextUpdate = now + 20 * 86_400
    rename(try scene.write("crl.new", text: list.pem(signedBy: part.authority.root)), scene.path("crl.pem"))
    part.daemon.signal(SIGHUP)
    try await part.daemon.logged("so its request in progress is cut", "certificate revoked")
    #expect(try await offPool { try tunnel.isClosedByPeer() })
  }
}
