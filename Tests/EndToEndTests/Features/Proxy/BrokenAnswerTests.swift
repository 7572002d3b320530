import Glibc
import TestSupport
import Testing

/// A body that goes on to the end of the connection: whoever ends it early must not make it look whole.
@Suite(.staged) struct `An answer that breaks off` {
  /// Sends the first part of a body without length, and holds the rest until the proxy leaves.
  private static func upstream(_ scene: Scene) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.requestHead()
      try wire.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npart")
      _ = try wire.readToEnd()
    }
  }

  private static func ask(_ wire: Wire) throws {
    try wire.write("GET / HTTP/1.0\r\n\r\n")
    _ = try wire.read(through: "\r\n\r\npart")
  }

  @Test func `ends by a reset for a client that has shut down its sending side`() async throws {
    let scene = try Scene.ofTest()
    let proxy = try await PlainProxy(scene, to: try Self.upstream(scene).port)
    let isReset = try await proxy.talk { wire in
      try Self.ask(wire)
      wire.finishWriting()
      #expect(try wire.readToEnd().isEmpty)
      return wire.isReset
    }
    #expect(isReset)
  }

  @Test func `ends by a reset when the proxy is stopped`() async throws {
    let scene = try Scene.ofTest()
    let proxy = try await PlainProxy(scene, to: try Self.upstream(scene).port)
    let daemon = proxy.daemon
    let isReset = try await proxy.talk { wire in
      try Self.ask(wire)
      daemon.signal(SIGTERM)
      #expect(try wire.readToEnd().isEmpty)
      return wire.isReset
    }
    #expect(isReset)
  }

  @Test func `ends by a reset when worker_shutdown_timeout passes`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port(), upstream = try Self.upstream(scene)
    let daemon = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(port); location / { proxy_pass http://127.0.0.1:\(upstream.port); } }",
      main: "worker_shutdown_timeout 1;")
    let isReset = try await scene.talk(port) { wire in
      try Self.ask(wire)
      daemon.signal(SIGQUIT)
      #expect(try wire.readToEnd().isEmpty)
      return wire.isReset
    }
    #expect(isReset)
  }

  @Test func `ends by a reset when its client takes nothing of it in time`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene, records: false) { wire, _ in
      _ = try wire.requestHead()
      try wire.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
      // More than both sockets' buffers hold: what the proxy has taken is whole, what the client has is not.
      for _ in 0..<32 { try wire.write(Pattern.bytes(1 << 20)) }
    }
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "proxy_buffers 64 1m; send_timeout 1s;")
    let isReset = try await proxy.talk { wire in
      try wire.write("GET / HTTP/1.0\r\n\r\n")
      _ = try wire.read(through: "\r\n\r\n")
      return wire.isResetByPeer()
    }
    #expect(isReset)
  }

  @Test(arguments: [true, false])
  func `a tunnel ends without close_notify where the upstream broke it off`(isBroken: Bool) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.requestHead()
      try wire.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\npart")
      // The client has it all: a reset would throw away what waits.
      _ = try wire.read(exactly: 4)
      if isBroken { wire.reset() }
    }
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        location / { proxy_pass http://127.0.0.1:\(upstream.port); \(Upgrades.upgrading) } }
      """)
    let client = try OpenSSLClient(scene, port: port, identity: cast.alice)
    try await offPool {
      try client.wire.write("GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
      _ = try client.wire.read(through: "\r\n\r\npart")
      try client.wire.write("done")
      #expect(try client.wire.readToEnd().isEmpty)
    }
    try await until("the client's end") { client.process.ending != nil }
    #expect(client.log.contains("unexpected eof") == isBroken)
  }
}
