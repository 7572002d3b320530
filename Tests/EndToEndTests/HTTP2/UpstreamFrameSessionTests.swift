import Glibc
import Synchronization
import TestSupport
import Testing

@Suite(.staged) struct `Sessions of HTTP 2 with an upstream` {
  /// Reads this many heads, whole or not.
  private static func heads(_ connection: UpstreamFrameConnection, _ count: Int) throws -> [UpstreamFrameRequest] {
    var heads: [UpstreamFrameRequest] = []
    while heads.count < count, let head = try connection.head() { heads.append(head) }
    return heads
  }

  private static func paths(_ count: Int) -> [String] { (0..<count).map { "/\($0)" } }

  @Test func `many requests at the same time share one connection`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      // None is answered before all are there, and then the last one first.
      for request in try Self.heads(connection, 20).reversed() { try connection.answer(request, "to \(request.path)") }
      try connection.serve { try connection.answer($0, "to \($0.path)") }
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    let results = try await proxy.curl(Self.paths(20))
    #expect(results.map(\.text) == Self.paths(20).map { "to \($0)" })
    #expect(try await proxy.curl("/later").text == "to /later")
    #expect(upstream.connections == 1)
  }

  @Test func `a stream limit of the upstream is kept, by another connection`() async throws {
    let scene = try Scene.ofTest(), goOn = Flag()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open([(3, 2)])
      try connection.answer(try Self.heads(connection, 1)[0], "first")
      let two = try Self.heads(connection, connection.number < 2 ? 2 : 1)
      goOn.wait()
      for request in two { try connection.answer(request, "\(connection.number)") }
      try connection.serve { try connection.answer($0) }
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    // A connection knows the limit after its first response.
    #expect(try await proxy.curl("/").text == "first")
    async let two = proxy.curl(["/1", "/2"])
    try await until("both on the first connection") { upstream.paths.count == 3 }
    #expect(try await proxy.curl("/").text == "first")
    #expect(upstream.connections == 2)
    goOn.raise()
    #expect(try await two.map(\.text) == ["0", "0"])
  }

  @Test func `a session that was announced to end takes no more, and what it has goes on`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      let request = try Self.heads(connection, 1)[0]
      if connection.number > 0 { return try connection.answer(request, "second") }
      try connection.goAway(last: 0x7fff_ffff)
      try connection.headers(request.stream, [(":status", "200")])
      try connection.data(request.stream, Array("be".utf8))
      // The proxy says that it has read the GOAWAY.
      try connection.write(.ping, [UInt8](repeating: 7, count: 8))
      while let event = try connection.next() { if case .ping(isAck: true) = event { break } }
      try connection.data(request.stream, Array("gun".utf8), ends: true)
      try connection.readToEnd()
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    #expect(try await proxy.curl("/").text == "begun")
    #expect(try await proxy.curl("/").text == "second")
  }

  @Test func `a kept session that is dead is replaced once, for requests that may be repeated`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      if let request = try connection.request() { try connection.answer(request, "\(connection.number)") }
      // The next one is read and never answered.
      _ = try connection.request()
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    #expect(try await proxy.curl("/").text == "0")
    #expect(try await proxy.curl("/").text == "1")
    #expect(try await proxy.curl("/", input: Array("body".utf8)).status == 502)
    #expect(upstream.connections == 2)
  }

  @Test func `nginx before 1_29_5, use after free: a status or a failure sends the request to the next server`()
    async throws
  {
    let scene = try Scene.ofTest()
    let first = try UpstreamFrameServer.serving(scene) { connection, request in
      switch request.path {
      case "/status": try connection.answer(request, "no", status: 503)
      case "/reset": try connection.reset(request.stream, 2)
      case "/invalid": try connection.headers(request.stream, [("x-a", "b")], ends: true)
      default: throw UpstreamFrameConnection.HangUp()
      }
    }
    let second = try UpstreamFrameServer.serving(scene) { try $0.answer($1, "second \($1.text)") }
    let proxy = try await FramedProxy(
      scene, to: first, second, group: "server 127.0.0.1:1 down;",
      location: "proxy_next_upstream error timeout invalid_header http_503 non_idempotent;")
    for path in ["/status", "/reset", "/invalid", "/cut"] {
      for body in ["", "body"] {
        let result = try await proxy.curl(
          path, body.isEmpty ? [] : ["-X", "POST"], input: body.isEmpty ? nil : Array(body.utf8))
        #expect(result.status == 200 && result.text == "second \(body)", "\(path) \(body)")
      }
    }
  }

  @Test func `an upstream that is silent or takes nothing is 504, and its session serves no more`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      connection.credits = false
      while let request = try connection.request() {
        if request.path != "/silent" { try connection.answer(request, "alive") }
      }
    }
    let proxy = try await FramedProxy(
      scene, to: upstream, location: "proxy_read_timeout 200ms; proxy_send_timeout 200ms;")
    #expect(try await proxy.curl("/silent").status == 504)
    // More than the window that the proxy begins with.
    #expect(try await proxy.curl("/", input: Pattern.bytes(100_000)).status == 504)
    try await proxy.daemon.logged("timed out", "while reading response header")
    try await proxy.daemon.logged("timed out", "while sending request")
    try await proxy.lives()
    #expect(upstream.resets.map(\.code) == [8, 8])
  }

  @Test func `a stream that is slow doesn't end the others of its session`() async throws {
    let scene = try Scene.ofTest(), isIn = Flag()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      while let request = try connection.request() {
        switch request.path {
        case "/slow": isIn.raise()
        default: try connection.answer(request, "\(connection.number)")
        }
      }
    }
    let proxy = try await FramedProxy(scene, to: upstream, location: "proxy_read_timeout 1s;")
    async let slow = proxy.curl("/slow")
    try await until("the slow request") { isIn.isRaised }
    let end = Flag()
    async let asked = {
      var texts: Set<String> = []
      while !end.isRaised { texts.insert(try await proxy.curl("/").text) }
      return texts
    }()
    #expect(try await slow.status == 504)
    end.raise()
    #expect(try await asked == ["0"])
    #expect(try await proxy.curl("/").text == "0")
  }

  @Test(arguments: [true, false])
  func `a client that leaves cancels its stream alone`(hasHead: Bool) async throws {
    let scene = try Scene.ofTest(), isIn = Flag()
    let upstream = try UpstreamFrameServer.serving(scene) { connection, request in
      guard request.path == "/held" else { return try connection.answer(request, "alive") }
      if hasHead { try connection.headers(request.stream, [(":status", "200")]) }
      isIn.raise()
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    try await scene.ask(proxy.port) { client in
      try client.begin("GET", "/held")
      isIn.wait()
    }
    try await until("RST_STREAM") { upstream.resets.count == 1 }
    #expect(upstream.resets.first?.code == 8 && upstream.resets.first?.stream == 1)
    try await proxy.lives()
    #expect(upstream.connections == 1)
  }

  @Test func `a response before the request's end stops the request`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open([(4, 100)])
      connection.credits = false
      while let request = try connection.head() {
        if request.path == "/alive" {
          try connection.answer(request, "alive")
        } else {
          try connection.answer(request, "enough", status: 413)
        }
      }
    }
    let proxy = try await FramedProxy(
      scene, to: upstream, location: "proxy_request_buffering off; client_max_body_size 0;")
    let answer = try await scene.ask(proxy.port) { client in
      try client.begin("POST", "/", body: .length(3 << 20))
      try client.send(Pattern.bytes(16_000))
      return try client.response()
    }
    #expect(answer.status == 413 && answer.text == "enough")
    try await until("RST_STREAM") { upstream.resets.count == 1 }
    try await proxy.lives()
    #expect(upstream.connections == 1)
  }

  /// Servers that credit each DATA frame as they read it send two WINDOW_UPDATE frames for each.
  @Test func `an upload that is credited in small pieces is no flood`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer.serving(scene, [(4, 1000)]) { try $0.answer($1, "\($1.body.count)") }
    let proxy = try await FramedProxy(scene, to: upstream, location: "client_max_body_size 0;")
    #expect(try await proxy.curl("/", input: Pattern.bytes(5_000_000)).text == "5000000")
    #expect(upstream.connections == 1)
  }

  @Test func `keepalive_requests bounds a session that is never idle`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      while let request = try connection.request() {
        if request.path != "/held" { try connection.answer(request, "\(connection.number)") }
      }
    }
    let proxy = try await FramedProxy(scene, to: upstream, group: "keepalive_requests 3;")
    async let held = proxy.curl("/held", ["--max-time", "600"])
    try await until("the request that stays") { upstream.paths == ["/held"] }
    var served: [String] = []
    for _ in 0..<4 { served.append(try await proxy.curl("/").text) }
    #expect(served == ["0", "0", "1", "1"])
    proxy.daemon.signal(SIGTERM)
    // The process ends under it, which curl 8 calls a framing error (16).
    _ = try? await held
  }

  @Test(arguments: ["Negotiate YII=", "NTLM TlRM"])
  func `credentials that authenticate a connection get a session of their own`(credentials: String) async throws {
    let scene = try Scene.ofTest()
    let upstream = try UpstreamFrameServer.serving(scene) { try $0.answer($1, "\($0.number)") }
    let proxy = try await FramedProxy(scene, to: upstream)
    var served: [String] = []
    for authorization in ["Basic eA==", credentials, "Basic eA==", credentials, "Basic eA=="] {
      served.append(try await proxy.curl("/", ["-H", "Authorization: \(authorization)"]).text)
    }
    #expect(served == ["0", "1", "0", "2", "0"])
  }

  @Test func `a reload lets streams end, and later requests get a session of the new settings`() async throws {
    let scene = try Scene.ofTest(), isIn = Flag(), goOn = Flag()
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      while let request = try connection.request() {
        if request.path == "/held" {
          isIn.raise()
          goOn.wait()
        }
        try connection.answer(request, "\(connection.number)")
      }
    }
    let proxy = try await FramedProxy(scene, to: upstream)
    async let held = proxy.curl("/held")
    try await until("the request that stays") { isIn.isRaised }
    proxy.daemon.signal(SIGHUP)
    try await proxy.daemon.logged("generation 2")
    #expect(try await proxy.curl("/").text == "1")
    goOn.raise()
    #expect(try await held.text == "0")
    #expect(try await proxy.curl("/").text == "1" && upstream.connections == 2)
  }

  /// The upstream may close a session that is idle; libnghttp2 says goodbye at `keepalive_timeout`.
  @Test func `an idle session ends in good order, by either side`() async throws {
    let scene = try Scene.ofTest(), ends = Mutex<[UInt32?]>([])
    let upstream = try UpstreamFrameServer(scene) { connection in
      try connection.open()
      var code: UInt32?
      while let event = try connection.next() {
        if case .goAway(let given) = event { code = given }
        guard case .request(let request) = event else { continue }
        try connection.answer(request, "\(connection.number)")
        if request.path == "/last" { break }
      }
      ends.withLock { $0.append(code) }
    }
    let proxy = try await FramedProxy(scene, to: upstream, group: "keepalive_timeout 100ms;")
    #expect(try await proxy.curl("/").text == "0")
    try await until("the end") { ends.withLock { $0.count == 1 } }
    #expect(ends.withLock { $0 } == [0])
    #expect(try await proxy.curl("/last").text == "1")
    #expect(try await proxy.curl("/").text == "2")
    #expect(!proxy.daemon.errorLog.contains("[error]"))
  }

  @Test func `PINGs of an upstream don't begin the idle time of its session anew`() async throws {
    let scene = try Scene.ofTest()
    let ended = Flag(), pings = Mutex(0)
    scene.atEnd { ended.raise() }
    let upstream = try UpstreamFrameServer(scene) { connection in
      defer { ended.raise() }
      try connection.open()
      guard let request = try connection.request() else { return }
      try connection.answer(request, "alive")
      for _ in 0..<200 {
        usleep(50_000)
        try connection.write(.ping, [UInt8](repeating: 0, count: 8))
        pings.withLock { $0 += 1 }
      }
    }
    let proxy = try await FramedProxy(scene, to: upstream, group: "keepalive 4; keepalive_timeout 300ms;")
    try await proxy.lives()
    try await until("the session to end") { ended.isRaised }
    #expect(pings.withLock { $0 } < 200)
  }
}
