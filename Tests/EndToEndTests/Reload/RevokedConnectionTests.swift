import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// Tunnels, event streams and downloads last for days. After a reload, none of them may go on for a client that a new
/// request would be refused (`ssl_revoked_connections`).
@Suite(.staged) struct `Requests in progress of revoked clients` {
  enum Means: CaseIterable, Sendable { case list, rule }

  /// A request that is in progress.
  enum Kind: String, CaseIterable, Sendable {
    case tunnel, events, download, upload, http2Events, http2Upload, grpc
    var isHTTP2: Bool { self == .http2Events || self == .http2Upload || self == .grpc }
  }

  /// A client with a request in progress, and what it can tell of that.
  private struct Client: Sendable {
    let kind: Kind
    let wire: Wire

    init(
      _ kind: Kind, _ scene: Scene, _ port: UInt16, _ identity: IdentityFiles, name: String = "localhost",
      showsName: Bool = true
    ) throws {
      self.kind = kind
      wire = try OpenSSLClient(
        scene, port: port, name: showsName ? name : "", identity: identity, kind.isHTTP2 ? ["-alpn", "h2"] : []
      ).wire
      switch kind {
      case .tunnel:
        guard try wire.openWebSocket("/tunnel", host: name).status == 101, try echoes() else {
          throw WireError.silent
        }
      case .events, .download:
        try wire.write("GET /\(kind.rawValue) HTTP/1.1\r\nHost: \(name)\r\n\r\n")
        guard try wire.read(through: "first") != nil else { throw WireError.silent }
      case .upload:
        try wire.write(
          "POST /upload HTTP/1.1\r\nHost: \(name)\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
        // A listener that goes waits for no request that nobody has read yet.
        guard try wire.read(through: "HTTP/1.1 100 Continue\r\n\r\n") != nil else { throw WireError.silent }
        try wire.write("some")
      case .http2Events, .http2Upload:
        let client = FrameClient(wire)
        try client.begin()
        client.send(kind == .http2Events ? .get(1, "/events") : .post(1, "/upload"))
        while kind == .http2Events, let frame = try client.next(), frame.kind != .data {}
        if kind == .http2Upload { _ = try client.settle() }
      case .grpc:
        let client = FrameClient(wire)
        try client.begin()
        client.send(.post(1, "/calls.Of/Both", [("te", "trailers"), ("content-type", "application/grpc")]))
        client.send(.data(1, "hello", ends: false))
        while let frame = try client.next(), frame.kind != .data {}
      }
    }

    private func echoes() throws -> Bool {
      try wire.write(WebSocket.frame(2, [7], mask: [1, 2, 3, 4]))
      return try wire.webSocketFrame()?.payload == [7]
    }

    /// Whether the request goes on: the tunnel echoes, and the upstream's next bytes come through.
    func goesOn() throws -> Bool {
      switch kind {
      case .tunnel: return try echoes()
      case .events, .download, .http2Events: return try wire.read(through: "more") != nil
      case .upload:
        try wire.write(String(repeating: "x", count: 996))
        return try wire.read(through: "HTTP/1.1 200") != nil
      case .http2Upload:
        let client = FrameClient(wire)
        client.send(.data(1, "whole"))
        return try client.response(on: 1).status == 200
      case .grpc:
        FrameClient(wire).send(.data(1, "more"))
        return try wire.read(through: "more") != nil
      }
    }

    /// Waits until the connection is closed.
    func isCut() throws -> Bool {
      do { _ = try wire.readToEnd() } catch WireError.silent { return false }
      return true
    }
  }

  private struct Front: Sendable {
    let scene: Scene
    let cast: Cast
    let bob: IdentityFiles
    let upstream: ScriptedUpstream
    let calls: UpstreamFrameServer
    let port: UInt16
    /// The upstream sends what is left of its responses.
    let more = Flag()

    init(_ scene: Scene) throws {
      self.scene = scene
      cast = try Cast(scene)
      bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
      port = try scene.port()
      let more = more
      scene.atEnd { more.raise() }
      upstream = try ScriptedUpstream(scene) { wire, _ in
        guard let request = try wire.requestHead() else { return }
        switch request.target {
        case "/tunnel":
          try wire.write(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              + "Sec-WebSocket-Accept: \(WebSocket.accept(for: request["Sec-WebSocket-Key"] ?? ""))\r\n\r\n")
          while let (opcode, payload) = try wire.webSocketFrame() { try wire.write(WebSocket.frame(opcode, payload)) }
        case "/events":
          try wire.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
          more.wait()
          try wire.write("4\r\nmore\r\n0\r\n\r\n")
        case "/download":
          try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst")
          more.wait()
          try wire.write("more")
        default:
          _ = try wire.readSome()
          try wire.answer("ok", closing: true)
        }
      }
      calls = try UpstreamFrameServer(scene) { connection in
        try connection.open()
        while let event = try connection.next() {
          switch event {
          case .head(let call):
            try connection.headers(call.stream, [(":status", "200"), ("content-type", "application/grpc")])
          case .data(let stream, _): try connection.data(stream, Array("first".utf8))
          case .request(let call):
            try connection.data(call.stream, Array("more".utf8))
            try connection.headers(call.stream, [("grpc-status", "0")], ends: true)
          default: break
          }
        }
      }
    }

    func list(revoking: [IdentityFiles], number: Int, until end: Int64 = Int64(time(nil)) + 86_400) throws {
      var builder = RevocationListBuilder(revoking: revoking.map(\.certified.certificate), number: number)
      builder.nextUpdate = end
      let path = try scene.write("crl.new", text: builder.pem(signedBy: cast.authority.root))
      rename(path, scene.path("crl.pem"))
    }

    func server(
      _ rules: String = "", mode: String = "", listen: UInt16? = nil, name: String = "localhost",
      list: String = "crl.pem"
    ) -> String {
      """
      server { listen 127.0.0.1:\(listen ?? port) ssl; http2 on; server_name \(name); \(Cast.tls) ssl_crl \(list);
        proxy_buffering off; \(mode)
        location /other { deny all; }
        location / { \(rules) proxy_pass http://127.0.0.1:\(upstream.port); \(Upgrades.upgrading) }
        location /calls. { \(rules) grpc_pass grpc://127.0.0.1:\(calls.port); }
        location = /metrics { metrics; } }
      """
    }

    func text(
      _ rules: String = "", mode: String = "", listen: UInt16? = nil, name: String = "localhost", turn: Int = 0
    ) -> String {
      configuration("# \(turn)\n" + server(rules, mode: mode, listen: listen, name: name))
    }

    typealias Pair = (kept: Client, lost: Client)

    /// Alice and Bob, each with something of every kind in progress. `port`: another one than the server's.
    func clients(of scene: Scene, at port: UInt16? = nil, name: String = "localhost") async throws -> [Pair] {
      try await offPool {
        try Kind.allCases.map { kind in
          (
            kept: try Client(kind, scene, port ?? self.port, cast.alice, name: name),
            lost: try Client(kind, scene, port ?? self.port, bob, name: name)
          )
        }
      }
    }

    /// What Bob has in progress is cut, and what Alice has goes on.
    func expectOnlyBobIsCut(_ clients: [Pair], sourceLocation: SourceLocation = #_sourceLocation) async throws {
      for (_, lost) in clients {
        let isCut = try await offPool { try lost.isCut() }
        #expect(isCut, "\(lost.kind)", sourceLocation: sourceLocation)
      }
      more.raise()
      for (kept, _) in clients {
        let goesOn = try await offPool { try kept.goesOn() }
        #expect(goesOn, "\(kept.kind)", sourceLocation: sourceLocation)
      }
    }

    func reload(_ daemon: Sallyport, to text: String, generation: Int) async throws {
      try daemon.rewrite(text)
      daemon.signal(SIGHUP)
      try await daemon.logged("reconfigured: generation \(generation)")
    }
  }

  @Test(arguments: [0, 1, 2], Means.allCases)
  func `a revoked client loses whatever is in progress, after any number of reloads, and another client keeps its own`(
    reloads: Int, means: Means
  ) async throws {
    let scene = try Scene.ofTest(), front = try Front(scene)
    try front.list(revoking: [], number: 1)
    let daemon = try await Sallyport.start(scene, front.text("ssl_client_deny cn=eve;"))
    let clients = try await front.clients(of: scene)
    for turn in 0..<reloads {
      try await front.reload(daemon, to: front.text("ssl_client_deny cn=eve;", turn: turn + 1), generation: turn + 2)
    }
    switch means {
    case .list:
      try front.list(revoking: [front.bob], number: 2)
      daemon.signal(SIGHUP)
    case .rule: try await front.reload(daemon, to: front.text("ssl_client_deny cn=bob;"), generation: reloads + 2)
    }
    try await front.expectOnlyBobIsCut(clients)
    try await daemon.logged(
      "the tunnel was cut after a reload", means == .list ? "certificate revoked" : "ssl_client_deny cn=bob")
    try await daemon.logged("the request was cut after a reload", "CN=bob")
    let page = try PrometheusPage(
      await scene.curl(
        front.cast.to(front.port) + front.cast.alice.curl + ["https://localhost:\(front.port)/metrics"]
      ).text)
    #expect(
      page.value("sallyport_client_requests_cut_total", ["reason": means == .list ? "certificate" : "rule"])
        == Double(Kind.allCases.count))
  }

  /// An upgrade of the package replaces the process in this way.
  @Test func `a revoked client loses what it has in progress in a process that was replaced`() async throws {
    let scene = try Scene.ofTest(), front = try Front(scene)
    try front.list(revoking: [], number: 1)
    let daemon = try await Sallyport.start(scene, front.text())
    let clients = try await front.clients(of: scene)
    daemon.signal(SIGUSR2)
    try await daemon.logged("of the new binary serves: this one drains")
    let fresh = try await waiting(for: "the pid file of the new process") {
      pid_t(scene.text("sallyport.pid").trimmingCharacters(in: .whitespacesAndNewlines))
        .flatMap { $0 == daemon.process.identifier ? nil : $0 }
    }
    scene.atEnd { kill(fresh, SIGKILL) }
    try front.list(revoking: [front.bob], number: 2)
    try await front.expectOnlyBobIsCut(clients)
  }

  /// Whoever waited in the queue of the former socket is served, and so is whoever had begun a handshake.
  @Test(arguments: [false, true])
  func `a client whose handshake is in progress while its listen changes to one that covers it is judged by now`(
    isRevoked: Bool
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    let (begun, go) = (Flag(), Flag())
    func list(revoking: [IdentityFiles], number: Int) throws {
      let builder = RevocationListBuilder(revoking: revoking.map(\.certified.certificate), number: number)
      try scene.write("crl.pem", text: builder.pem(signedBy: cast.authority.root))
    }
    func text(_ listen: String) -> String {
      configuration(
        "ssl_reload off; server { listen \(listen)\(port) ssl; \(Cast.tls) ssl_crl crl.pem; return 200 hello; }")
    }
    try list(revoking: [], number: 1)
    let daemon = try await Sallyport.start(scene, text("127.0.0.1:"))
    let relay = try ScriptedUpstream.holdingRelay(scene, to: port, begun: begun, go: go)
    async let isServed = offPool {
      let wire = try OpenSSLClient(scene, port: relay.port, name: "localhost", identity: cast.alice, []).wire
      try wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
      return try wire.readToEnd().starts(with: Array("HTTP/1.1 200".utf8))
    }
    try await until("the client's first bytes") { begun.isRaised }
    for _ in 0..<8 {
      #expect(try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost:\(port)/"]).status == 200)
    }
    if isRevoked { try list(revoking: [cast.alice], number: 2) }
    try daemon.rewrite(text(""))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    go.raise()
    #expect(try await isServed != isRevoked)
  }

  @Test func `a client whose listen moved is judged by its server block at the new address`() async throws {
    let scene = try Scene.ofTest(), front = try Front(scene), moved = try scene.port()
    try front.list(revoking: [], number: 1)
    let daemon = try await Sallyport.start(scene, front.text())
    let (kept, lost) = try await offPool {
      (try Client(.tunnel, scene, front.port, front.cast.alice), try Client(.tunnel, scene, front.port, front.bob))
    }
    try await front.reload(daemon, to: front.text(listen: moved), generation: 2)
    let goesOn = try await offPool { try (kept.goesOn(), lost.goesOn()) }
    #expect(goesOn.0 && goesOn.1)
    try front.list(revoking: [front.bob], number: 2)
    daemon.signal(SIGHUP)
    let isCut = try await offPool { try lost.isCut() }
    #expect(isCut)
    #expect(try await offPool { try kept.goesOn() })
  }

  /// Nothing but the address says which block is that of the client now.
  @Test func `a client without SNI whose listen changed to one that covers it is judged by the block there`()
    async throws
  {
    let scene = try Scene.ofTest(), front = try Front(scene)
    try front.list(revoking: [], number: 1)
    let daemon = try await Sallyport.start(scene, front.text())
    let (kept, lost) = try await offPool {
      (
        try Client(.tunnel, scene, front.port, front.cast.alice, showsName: false),
        try Client(.tunnel, scene, front.port, front.bob, showsName: false)
      )
    }
    try front.list(revoking: [front.bob], number: 2)
    let wider = front.text().replacing("listen 127.0.0.1:\(front.port) ", with: "listen \(front.port) ")
    try await front.reload(daemon, to: wider, generation: 2)
    let isCut = try await offPool { try lost.isCut() }
    #expect(isCut)
    #expect(try await offPool { try kept.goesOn() })
  }

  @Test(arguments: [true, false])
  func `a responder that a reload names decides on requests in progress`(answers: Bool) async throws {
    let scene = try Scene.ofTest(), front = try Front(scene)
    try front.list(revoking: [], number: 1)
    let responder = try await OCSPResponder(
      scene, front.cast.authority.root,
      [(front.cast.alice.certified.certificate, .good), (front.bob.certified.certificate, .revoked)])
    let daemon = try await Sallyport.start(scene, front.text())
    let clients = try await front.clients(of: scene)
    if !answers { responder.stop() }
    try await front.reload(
      daemon, to: front.text(mode: "ssl_ocsp leaf; ssl_ocsp_responder \(responder.url);"), generation: 2)
    for (kept, lost) in clients {
      let isCut = try await offPool { try (lost.isCut(), answers ? true : kept.isCut()) }
      #expect(isCut.0 && isCut.1, "\(lost.kind)")
    }
    front.more.raise()
    for (kept, _) in clients where answers {
      let goesOn = try await offPool { try kept.goesOn() }
      #expect(goesOn, "\(kept.kind)")
    }
  }

  @Test func `a listener that is removed drains whatever it carries`() async throws {
    let scene = try Scene.ofTest(), front = try Front(scene), moved = try scene.port()
    try front.list(revoking: [], number: 1)
    let daemon = try await Sallyport.start(scene, front.text())
    let clients = try await offPool {
      try Kind.allCases.map { try Client($0, scene, front.port, front.cast.alice) }
    }
    for generation in 2...3 {
      try await front.reload(
        daemon, to: front.text(listen: moved, name: "other.test", turn: generation), generation: generation)
    }
    front.more.raise()
    for client in clients {
      let goesOn = try await offPool { try client.goesOn() }
      #expect(goesOn, "\(client.kind)")
    }
    #expect(!daemon.errorLog.contains("was cut"))
  }

  /// Nobody reads the files of its own server block any more.
  @Test(arguments: ["close", "drain 100ms"])
  func `a client of a removed listener is judged by the revocation lists that other server blocks have`(mode: String)
    async throws
  {
    let scene = try Scene.ofTest(), front = try Front(scene), gone = try scene.port()
    try front.list(revoking: [], number: 1)
    try scene.write("gone.pem", text: scene.text("crl.pem"))
    let removed = front.server(
      mode: "ssl_revoked_connections \(mode);", listen: gone, name: "gone.test", list: "gone.pem")
    let daemon = try await Sallyport.start(scene, configuration(removed + "\n" + front.server()))
    let clients = try await front.clients(of: scene, at: gone, name: "gone.test")
    try await front.reload(daemon, to: front.text(), generation: 2)
    let goesOn = try await offPool { try (clients[0].kept.goesOn(), clients[0].lost.goesOn()) }
    #expect(goesOn.0 && goesOn.1)
    try front.list(revoking: [front.bob], number: 2)
    daemon.signal(SIGHUP)
    try await front.expectOnlyBobIsCut(clients)
    try await daemon.logged("the tunnel was cut after a reload", "certificate revoked")
  }

  /// Another listener that has a server block of the name since before the reload is no successor of the removed one.
  @Test func `a removed listener without client certificates drains beside one that asks for them`() async throws {
    let scene = try Scene.ofTest(), front = try Front(scene), open = try scene.port()
    try front.list(revoking: [], number: 1)
    let removed = """
      server { listen 127.0.0.1:\(open) ssl; http2 on; server_name localhost; \(Cast.tls(verify: "off")) proxy_buffering off;
        location / { proxy_pass http://127.0.0.1:\(front.upstream.port); \(Upgrades.upgrading) } }
      """
    let daemon = try await Sallyport.start(
      scene, front.text().replacing("http {", with: "http {\n\(removed)"))
    let clients = try await offPool {
      try [Kind.tunnel, .events, .download, .upload, .http2Events].map {
        try Client($0, scene, open, front.cast.alice)
      }
    }
    try await front.reload(daemon, to: front.text(), generation: 2)
    front.more.raise()
    for client in clients {
      let goesOn = try await offPool { try client.goesOn() }
      #expect(goesOn, "\(client.kind)")
    }
  }

  @Test func `a kept connection of a removed listener may send one more request`() async throws {
    let scene = try Scene.ofTest(), ports = [try scene.port(), try scene.port()]
    func text(_ ports: [UInt16]) -> String {
      configuration(ports.map { "server { listen 127.0.0.1:\($0); return 200 served; }" }.joined(separator: "\n"))
    }
    let daemon = try await Sallyport.start(scene, text(ports))
    let begun = try await offPool {
      let wire = try Wire.dial(port: ports[0])
      try wire.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
      #expect(try wire.response().status == 200)
      // Its head is complete after the reload only, so that no clock decides.
      try wire.write("GET / HTTP/1.1\r\nHo")
      return wire
    }
    // The worker has read the part before the reload: a later connection to the other port was served.
    _ = try await scene.curl(["http://127.0.0.1:\(ports[1])/"])
    try daemon.rewrite(text([ports[1]]))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    let response = try await offPool {
      try begun.write("st: h\r\n\r\n")
      return try begun.response()
    }
    #expect(response.status == 200 && response["Connection"]?.lowercased() == "close")
  }

  @Test func `ssl_revoked_connections drain lets a response end, and cuts a tunnel`() async throws {
    let scene = try Scene.ofTest(), front = try Front(scene)
    try front.list(revoking: [], number: 1)
    let daemon = try await Sallyport.start(scene, front.text(mode: "ssl_revoked_connections drain 1h;"))
    let clients = try await offPool {
      try [Kind.tunnel, .events, .http2Events].map { try Client($0, scene, front.port, front.bob) }
    }
    try front.list(revoking: [front.bob], number: 2)
    daemon.signal(SIGHUP)
    let isCut = try await offPool { try clients[0].isCut() }
    #expect(isCut)
    front.more.raise()
    for client in clients.dropFirst() { #expect(try await offPool { try client.goesOn() && client.isCut() }) }
  }

  @Test func `ssl_revoked_connections drain cuts a response when its time is over`() async throws {
    let scene = try Scene.ofTest(), front = try Front(scene)
    try front.list(revoking: [], number: 1)
    let daemon = try await Sallyport.start(scene, front.text(mode: "ssl_revoked_connections drain 100ms;"))
    let clients = try await offPool {
      try Kind.allCases.map { try Client($0, scene, front.port, front.bob) }
    }
    try front.list(revoking: [front.bob], number: 2)
    daemon.signal(SIGHUP)
    for client in clients {
      let isCut = try await offPool { try client.isCut() }
      #expect(isCut, "\(client.kind)")
    }
  }

  @Test func `a head whose end comes after a reload is not judged by the configuration before it`() async throws {
    let scene = try Scene.ofTest(), front = try Front(scene)
    try front.list(revoking: [], number: 1)
    let daemon = try await Sallyport.start(scene, front.text())
    let client = try await offPool { try Client(.http2Events, scene, front.port, front.bob) }
    let block = HPACK.block(HPACK.request("GET", "/metrics"))
    FrameClient(client.wire).send(.headers(3, Array(block.prefix(4)), flags: HTTP2Frame.endStream))
    try await front.reload(daemon, to: front.text(turn: 1), generation: 2)
    let response = try await offPool {
      let frames = FrameClient(client.wire)
      frames.send(.continuation(3, Array(block.dropFirst(4))))
      return try frames.response(on: 3)
    }
    #expect(response.resetCode == .refusedStream && response.status == 0)
    front.more.raise()
    #expect(try await offPool { try client.goesOn() })
  }

  @Test func `worker_shutdown_timeout ends the tunnels of an earlier generation`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.webSocketEcho(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(port); location / { proxy_pass http://127.0.0.1:\(upstream.port); \(Upgrades.upgrading) } }",
      main: "worker_shutdown_timeout 200ms;")
    let isEnded = try await scene.talk(port) { wire in
      guard try wire.openWebSocket("/").status == 101 else { return false }
      daemon.signal(SIGHUP)
      return try wire.isClosedByPeer()
    }
    #expect(isEnded)
  }

  // MARK: The end of an admission

  /// What a client's admission rests on, and ends.
  enum End: CaseIterable, Sendable {
    case certificate, list
    var reason: String {
      switch self {
      case .certificate: "(10:certificate has expired"
      case .list: "(12:CRL has expired"
      }
    }
  }

  @Test(
    .disabled(if: Sanitizer.isUsed, "a sanitizer does not run beside a preloaded library"),
    arguments: End.allCases)
  func `a client loses its connections and whatever is in progress when its admission ends, without a reload`(
    end: End
  ) async throws {
    let scene = try Scene.ofTest(), front = try Front(scene), now = Int64(time(nil))
    let bob = try scene.identity("short", front.cast.authority.client(commonName: "bob", until: now + 86_400))
    try front.list(revoking: [], number: 1, until: now + (end == .list ? 86_400 : 30 * 86_400))
    let daemon = try await Sallyport.start(
      scene, front.text("ssl_client_deny cn=eve;"), environment: try await ClockJump.environment(scene))
    let kept =
      end == .list
      ? [] : try await offPool { try Kind.allCases.map { try Client($0, scene, front.port, front.cast.alice) } }
    let lost = try await offPool { try Kind.allCases.map { try Client($0, scene, front.port, bob) } }
    let idle = try await offPool {
      let wire = try OpenSSLClient(scene, port: front.port, name: "localhost", identity: bob, []).wire
      try wire.write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
      #expect(try wire.response().status == 200)
      return wire
    }
    try scene.write("clock", text: "+2d\n")
    for client in lost {
      let isCut = try await offPool { try client.isCut() }
      #expect(isCut, "\(client.kind)")
    }
    #expect(try await offPool { try idle.readToEnd().isEmpty })
    try await daemon.logged("the tunnel was cut: client SSL certificate verify error: \(end.reason)")
    try await daemon.logged("the request was cut: ", "CN=bob")
    try await daemon.logged("the idle connection was closed: ", end.reason)
    front.more.raise()
    for client in kept {
      let goesOn = try await offPool { try client.goesOn() }
      #expect(goesOn, "\(client.kind)")
    }
    guard end == .certificate else { return }
    let page = try PrometheusPage(
      await scene.curl(
        front.cast.to(front.port) + front.cast.alice.curl + ["https://localhost:\(front.port)/metrics"]
      ).text)
    #expect(
      page.value("sallyport_client_requests_cut_total", ["reason": "certificate"]) == Double(Kind.allCases.count))
  }

  @Test(
    .disabled(if: Sanitizer.isUsed, "a sanitizer does not run beside a preloaded library"))
  func `a newer list extends the admission of requests in progress, and its end ends them`() async throws {
    let scene = try Scene.ofTest(), front = try Front(scene), now = Int64(time(nil))
    try front.list(revoking: [], number: 1, until: now + 86_400)
    let daemon = try await Sallyport.start(
      scene, front.text(), environment: try await ClockJump.environment(scene))
    let tunnel = try await offPool { try Client(.tunnel, scene, front.port, front.cast.alice) }
    try front.list(revoking: [], number: 2, until: now + 3 * 86_400)
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    try scene.write("clock", text: "+2d\n")
    // Bob's handshake shows that the daemon has seen the new time.
    let late = try scene.identity("late", front.cast.authority.client(commonName: "late", until: now + 86_400))
    try await until("the clock to be seen") {
      try await scene.curl(front.cast.to(front.port) + late.curl + ["https://localhost:\(front.port)/metrics"]).status
        == 400
    }
    #expect(try await offPool { try tunnel.goesOn() })
    try scene.write("clock", text: "+4d\n")
    let isCut = try await offPool { try tunnel.isCut() }
    #expect(isCut)
    try await daemon.logged("the tunnel was cut: client SSL certificate verify error: (12:CRL has expired")
  }

  @Test func `many kept connections of one client outlive many revocation lists`() async throws {
    let scene = try Scene.ofTest(), front = try Front(scene)
    try front.list(revoking: [], number: 1)
    let daemon = try await Sallyport.start(scene, front.text())
    let wires = try await offPool {
      try (0..<60).map { _ in
        try OpenSSLClient(scene, port: front.port, name: "localhost", identity: front.cast.alice, []).wire
      }
    }
    func ask() async throws -> Int {
      try await offPool {
        try wires.count { wire in
          try wire.write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
          return try wire.response().status == 200
        }
      }
    }
    #expect(try await ask() == 60)
    for number in 2...5 {
      try front.list(revoking: [front.bob], number: number)
      // Without a signal: the reload of a signal beside that of the file would meet the requests, which then end their connections.
      try await daemon.logged("reconfigured: generation \(number)")
      #expect(try await ask() == 60)
    }
  }
}
