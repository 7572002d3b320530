import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `Upgrades` {
  static let upgrading =
    #"proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";"#

  private static func converse(_ wire: Wire) throws -> HTTPMessage {
    let answer = try wire.openWebSocket("/chat")
    guard answer.status == 101 else { return answer }
    for size in [0, 1, 125, 126, 70_000, 300_000] {
      try wire.write(WebSocket.frame(2, Pattern.bytes(size), mask: [1, 2, 3, 4]))
      let frame = try wire.webSocketFrame()
      guard let frame, frame.opcode == 2, Pattern.equal(frame.payload, Pattern.bytes(size)) else {
        throw WireError.malformed("frame of \(size)")
      }
    }
    try wire.write(WebSocket.frame(8, [], mask: [9, 9, 9, 9]))
    guard try wire.webSocketFrame()?.opcode == 8, try wire.isClosedByPeer() else {
      throw WireError.malformed("no end")
    }
    return answer
  }

  @Test func `a WebSocket passes after the upstream's 101`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.webSocketEcho(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: Self.upgrading)
    let answer = try await proxy.talk { try Self.converse($0) }
    #expect(answer.status == 101)
    #expect(answer["Sec-WebSocket-Accept"] == WebSocket.accept(for: WebSocket.key))
    #expect(answer["Upgrade"]?.lowercased() == "websocket")
    try await until("the access log's line") { scene.text("access.log").contains("\" 101 ") }
  }

  @Test func `a WebSocket passes through mutual TLS`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.webSocketEcho(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        location / { proxy_pass http://127.0.0.1:\(upstream.port); \(Self.upgrading) } }
      """)
    let answer = try await scene.talk(tls: port, identity: cast.alice) { try Self.converse($0) }
    #expect(answer.status == 101)
    let stranger = try await scene.talk(tls: port) { try $0.openWebSocket("/chat") }
    #expect(stranger.status == 400)
    #expect(upstream.connections == 1)
  }

  @Test func `frames that follow the request or the 101 at once are not lost`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.requestHead()
      try wire.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nfirst")
      try wire.write(try wire.read(exactly: 5))
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, location: Self.upgrading)
    let (answer, bytes) = try await proxy.talk { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nearly")
      return (try wire.response(), try wire.readToEnd())
    }
    #expect(answer.status == 101)
    #expect(String(decoding: bytes, as: UTF8.self) == "firstearly")
  }

  @Test(arguments: [("1.0", "x"), ("1.1", "h2c"), ("1.1", "HTTP/2.0, h2c")])
  func `a client of HTTP 1_0 gets no 101, and nobody a tunnel of HTTP`(version: String, protocols: String) async throws
  {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.requestHead()
      // Asked or not.
      try wire.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: \(protocols)\r\nConnection: upgrade\r\n\r\n")
      _ = try wire.readToEnd()
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, location: Self.upgrading)
    let answer = try await proxy.talk { wire in
      try wire.write("GET / HTTP/\(version)\r\nHost: h\r\nUpgrade: \(protocols)\r\nConnection: upgrade\r\n\r\n")
      return try wire.response()
    }
    #expect(answer.status == 502)
    #expect(!upstream.receivedText.contains("Upgrade: "))
  }

  @Test func `an upgrade that the upstream refuses stays HTTP`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        try wire.answer(request.target, status: request.target == "/426" ? "426 Upgrade Required" : "200 OK")
      }
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, location: Self.upgrading)
    let answers = try await proxy.talk { wire in
      let first = try wire.openWebSocket("/426")
      let second = try wire.openWebSocket("/200")
      // What follows is a request, judged as one, and no tunnel.
      try wire.write("GARBAGE\0\r\n\r\n")
      return try [first, second, wire.response()]
    }
    #expect(answers.map(\.status) == [426, 200, 400])
    #expect(!upstream.receivedText.contains("GARBAGE"))
  }

  @Test func `an upgrade is not asked for where the configuration does not say so`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.webSocketEcho(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: PlainProxy.kept)
    let answer = try await proxy.talk { try $0.openWebSocket("/chat") }
    #expect(answer.status == 400 && answer.text == "no upgrade\n")
    #expect(!upstream.receivedText.contains("Upgrade"))
  }

  @Test func `a tunnel that says nothing ends after proxy_read_timeout`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.webSocketEcho(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: Self.upgrading + "proxy_read_timeout 400ms;")
    let (status, isClosed) = try await proxy.talk { wire in
      (try wire.openWebSocket("/chat").status, try wire.isClosedByPeer())
    }
    #expect(status == 101 && isClosed)
  }

  @Test func `what a client says before its end reaches a slow upstream whole`() async throws {
    let scene = try Scene.ofTest()
    let bytes = Pattern.bytes(6_000_000)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.requestHead()
      try wire.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
      // Slower than the client writes: at its end some of it waits in the proxy.
      while try !wire.readSome(20_000).isEmpty { usleep(1000) }
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, location: Self.upgrading)
    try await proxy.talk { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
      _ = try wire.response()
      try wire.write(bytes)
      wire.finishWriting()
      #expect(try wire.isClosedByPeer())
    }
    try await until("the upstream to have all") { (upstream.received.first?.count ?? 0) >= bytes.count }
    #expect(upstream.received.first?.suffix(bytes.count).elementsEqual(bytes) == true)
  }

  @Test func `the end of one side ends the other`() async throws {
    let scene = try Scene.ofTest()
    let ended = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.requestHead()
      try wire.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
      while try !wire.readSome().isEmpty {}
      ended.raise()
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, location: Self.upgrading)
    let status = try await proxy.talk { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
      return try wire.response().status
    }
    #expect(status == 101)
    try await until("the upstream's side to end") { ended.isRaised }
  }
}
