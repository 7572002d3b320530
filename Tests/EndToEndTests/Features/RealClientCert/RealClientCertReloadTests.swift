import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// A front's connection lasts longer than the right of one of its clients.
@Suite(.staged) struct `Clients behind a front, after a reload` {
  enum Change: String, CaseIterable, Sendable {
    case list, rule, front
    var reason: String {
      switch self {
      case .list: "certificate revoked"
      case .rule: "ssl_client_deny cn=bob"
      case .front: "does not take this front's word any more"
      }
    }
  }

  private struct Part: Sendable {
    let scene: Scene
    let cast: Cast
    let bob: CertifiedKey
    let upstream: ScriptedUpstream
    let port: UInt16, plain: UInt16

    init(_ scene: Scene) throws {
      self.scene = scene
      cast = try Cast(scene)
      bob = try cast.authority.client(commonName: "bob")
      (port, plain) = try (scene.port(), scene.port())
      upstream = try ScriptedUpstream(scene) { wire, _ in
        guard let request = try wire.requestHead() else { return }
        guard request.target == "/tunnel" else { return try wire.answer("ok", closing: true) }
        try wire.write(
          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Accept: \(WebSocket.accept(for: request["Sec-WebSocket-Key"] ?? ""))\r\n\r\n")
        while let (opcode, payload) = try wire.webSocketFrame() { try wire.write(WebSocket.frame(opcode, payload)) }
      }
      try list([])
    }

    func list(_ revoked: [CertifiedKey], until end: Int64 = Int64(time(nil)) + 86_400) throws {
      var builder = RevocationListBuilder(revoking: revoked.map(\.certificate), number: revoked.count + 1)
      builder.nextUpdate = end
      let path = try scene.write("crl.new", text: builder.pem(signedBy: cast.authority.root))
      rename(path, scene.path("crl.pem"))
    }

    func text(fronts: [String] = ["127.0.0.1"], _ rules: String = "") -> String {
      configuration(
        FrontedProxy.server(
          port, plain, "on", fronts, .rfc9440, "ssl_crl crl.pem;",
          "location / { \(rules) proxy_pass http://127.0.0.1:\(upstream.port); \(Upgrades.upgrading) }"))
    }

    /// A tunnel of this client, over a connection of the front.
    func tunnel(_ shown: CertifiedKey, isPlain: Bool) throws -> Wire {
      let wire = try isPlain ? Wire.dial(port: plain) : OpenSSLClient(scene, port: port).wire
      let fields = FrontField.rfc9440.fields(shown).map { "\($0.name): \($0.value)\r\n" }.joined()
      try wire.write(
        "GET /tunnel HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\(fields)\r\n")
      guard try wire.response().status == 101, try echoes(wire) else { throw WireError.silent }
      return wire
    }

    func echoes(_ wire: Wire) throws -> Bool {
      try wire.write(WebSocket.frame(2, [7], mask: [1, 2, 3, 4]))
      return try wire.webSocketFrame()?.payload == [7]
    }
  }

  @Test(arguments: Change.allCases, [false, true])
  func `a client that a new request would be refused loses its tunnel, and the others keep theirs`(
    change: Change, isPlain: Bool
  ) async throws {
    let scene = try Scene.ofTest(), part = try Part(scene)
    let daemon = try await Sallyport.start(scene, part.text())
    let (kept, lost) = try await offPool {
      (try part.tunnel(part.cast.alice.certified, isPlain: isPlain), try part.tunnel(part.bob, isPlain: isPlain))
    }
    // A reload that changes nothing cuts nobody.
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await offPool { try part.echoes(lost) })
    switch change {
    case .list: try part.list([part.bob])
    case .rule: try daemon.rewrite(part.text("ssl_client_deny cn=bob;"))
    case .front: try daemon.rewrite(part.text(fronts: ["192.0.2.1"]))
    }
    daemon.signal(SIGHUP)
    try await daemon.logged("the tunnel was cut after a reload", change.reason)
    #expect(try await offPool { try lost.readToEnd().isEmpty })
    if change == .front { return }
    #expect(try await offPool { try part.echoes(kept) })
    // A new request of the same client is refused, also where its chain was known.
    let curl = part.cast.to(part.port) + ["https://localhost/"]
    let status = change == .list ? 400 : 403
    #expect(try await scene.curl(FrontField.rfc9440.curl(part.bob) + curl).status == status)
    #expect(try await scene.curl(FrontField.rfc9440.curl(part.cast.alice.certified) + curl).status == 200)
  }

  @Test(
    .disabled(if: Sanitizer.isUsed, "a sanitizer does not run beside a preloaded library"),
    arguments: [false, true])
  func `a client whose certificate ends loses its tunnel, and the others keep theirs`(isPlain: Bool) async throws {
    let scene = try Scene.ofTest(), part = try Part(scene), now = Int64(time(nil))
    try part.list([], until: now + 30 * 86_400)
    let daemon = try await Sallyport.start(
      scene, part.text(), environment: try await ClockJump.environment(scene))
    let short = try part.cast.authority.client(commonName: "bob", until: now + 86_400)
    let (kept, lost) = try await offPool {
      (try part.tunnel(part.cast.alice.certified, isPlain: isPlain), try part.tunnel(short, isPlain: isPlain))
    }
    try scene.write("clock", text: "+2d\n")
    let isCut = try await offPool { try lost.readToEnd().isEmpty }
    #expect(isCut)
    try await daemon.logged("the tunnel was cut: client SSL certificate verify error: (10:certificate has expired")
    #expect(try await offPool { try part.echoes(kept) })
  }

  @Test(arguments: [false, true])
  func `a client that the API denies loses its tunnel and gets no other, whatever front it comes by`(
    isPlain: Bool
  ) async throws {
    let scene = try Scene.ofTest(), part = try Part(scene), socket = scene.path("api.sock")
    let api = "server { listen unix:\(socket); location /api/ { api write=on; } location = /metrics { metrics; } }"
    let daemon = try await Sallyport.start(scene, part.text().replacing("http {", with: "http { \(api)"))
    let (kept, lost) = try await offPool {
      (try part.tunnel(part.cast.alice.certified, isPlain: isPlain), try part.tunnel(part.bob, isPlain: isPlain))
    }
    let fingerprint = part.bob.certificate.sha256.map { String(format: "%02x", $0) }.joined()
    let told = try await scene.run(Sallyport.binary(), ["ctl", "deny", fingerprint, "1h", "--socket", socket])
    #expect(told.text == "denied for 1 hour; 1 connections were cut\n", "\(told.everything)")
    #expect(try await offPool { try lost.readToEnd().isEmpty })
    try await daemon.logged("the tunnel was cut by the API")
    #expect(try await offPool { try part.echoes(kept) })
    func ask(_ who: CertifiedKey) async throws -> Int {
      let target = isPlain ? ["http://127.0.0.1:\(part.plain)/"] : part.cast.to(part.port) + ["https://localhost/"]
      return try await scene.curl(FrontField.rfc9440.curl(who) + target).status
    }
    #expect(try await ask(part.bob) == 400)
    #expect(try await ask(part.cast.alice.certified) == 200)
    try await daemon.logged("the client's certificate is denied by the API for")
    let page = try await scene.curl(["--unix-socket", socket, "http://localhost/metrics"]).text
    #expect(page.contains("sallyport_client_refusals_total{reason=\"denial\"} 1\n"))
  }

  @Test func `a front whose own certificate is revoked loses the tunnels of its clients`() async throws {
    let scene = try Scene.ofTest(), part = try Part(scene)
    let balancer = try scene.identity("lb", part.cast.authority.client(commonName: "lb"))
    let daemon = try await Sallyport.start(scene, part.text(fronts: ["cn=lb"]))
    let tunnel = try await offPool {
      let wire = try OpenSSLClient(scene, port: part.port, identity: balancer).wire
      let fields = FrontField.rfc9440.fields(part.bob).map { "\($0.name): \($0.value)\r\n" }.joined()
      try wire.write(
        "GET /tunnel HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\(fields)\r\n")
      #expect(try wire.response().status == 101)
      return wire
    }
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await offPool { try part.echoes(tunnel) })
    try part.list([balancer.certified])
    daemon.signal(SIGHUP)
    try await daemon.logged("the tunnel was cut after a reload", "certificate revoked")
    #expect(try await offPool { try tunnel.readToEnd().isEmpty })
  }
}
