import Crypto
import Glibc
import TestSupport
import Testing

/// Tunnels last for days, so a reload must not leave them to clients that it would refuse.
@Suite(.staged) struct `Tunnels and reloads` {
  private func list(_ scene: Scene, _ cast: Cast, revoking: [IdentityFiles], number: Int) throws {
    var builder = RevocationListBuilder(revoking: revoking.map(\.certified.certificate), number: number)
    builder.nextUpdate = Int64(time(nil)) + 86_400
    let path = try scene.write("crl.new", text: builder.pem(signedBy: cast.authority.root))
    rename(path, scene.path("crl.pem"))
  }

  private static func echoes(_ wire: Wire) throws -> Bool {
    try wire.write(WebSocket.frame(2, [7], mask: [1, 2, 3, 4]))
    return try wire.webSocketFrame()?.payload == [7]
  }

  @Test func `a client that is revoked loses its tunnel, and another client keeps its own`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    try list(scene, cast, revoking: [], number: 1)
    let upstream = try ScriptedUpstream.webSocketEcho(scene)
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_crl crl.pem;
          location / { proxy_pass http://127.0.0.1:\(upstream.port); \(Upgrades.upgrading) } }
        """))
    let kept = try OpenSSLClient(scene, port: port, name: "localhost", identity: cast.alice, [])
    let lost = try OpenSSLClient(scene, port: port, name: "localhost", identity: bob, [])
    for client in [kept, lost] {
      let isOpen = try await offPool { try client.wire.openWebSocket("/").status == 101 && Self.echoes(client.wire) }
      #expect(isOpen)
    }
    try list(scene, cast, revoking: [bob], number: 2)
    #expect(try await offPool { try lost.wire.isClosedByPeer() })
    #expect(try await offPool { try Self.echoes(kept.wire) })
    kept.wire.close()
    lost.wire.close()
  }

  @Test func `a client that a new rule denies loses its tunnel, and another client keeps its own`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let upstream = try ScriptedUpstream.webSocketEcho(scene)
    let port = try scene.port()
    func text(_ rule: String) -> String {
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
          location /other { deny all; }
          location / { \(rule) proxy_pass http://127.0.0.1:\(upstream.port); \(Upgrades.upgrading) } }
        """)
    }
    let daemon = try await Sallyport.start(scene, text("ssl_client_allow cn=alice; ssl_client_allow cn=bob;"))
    let kept = try OpenSSLClient(scene, port: port, name: "localhost", identity: cast.alice, [])
    let lost = try OpenSSLClient(scene, port: port, name: "localhost", identity: bob, [])
    for client in [kept, lost] {
      let isOpen = try await offPool { try client.wire.openWebSocket("/").status == 101 && Self.echoes(client.wire) }
      #expect(isOpen)
    }
    try daemon.rewrite(text("ssl_client_allow cn=alice;"))
    daemon.signal(SIGHUP)
    #expect(try await offPool { try lost.wire.isClosedByPeer() })
    #expect(try await offPool { try Self.echoes(kept.wire) })
    try await daemon.logged("a tunnel was ended", "no ssl_client_allow")
    kept.wire.close()
    lost.wire.close()
  }

  @Test func `worker_shutdown_timeout ends the tunnels of an earlier generation`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.webSocketEcho(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        "server { listen 127.0.0.1:\(port); location / { proxy_pass http://127.0.0.1:\(upstream.port); \(Upgrades.upgrading) } }",
        main: "worker_shutdown_timeout 200ms;"))
    let isEnded = try await scene.talk(port) { wire in
      guard try wire.openWebSocket("/").status == 101, try Self.echoes(wire) else { return false }
      daemon.signal(SIGHUP)
      return try wire.isClosedByPeer()
    }
    #expect(isEnded)
  }
}
