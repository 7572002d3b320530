import Glibc
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `An upstream that misbehaves` {
  @Test func `an upstream that is slow is waited for`() async throws {
    let scene = try Scene.ofTest()
    let go = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      for piece in ["HTTP/1.1 200 OK\r\nCont", "ent-Length: 10\r\n", "\r\n01234", "56789"] {
        try wire.write(piece)
        usleep(20_000)
      }
      go.wait()
    }
    let proxy = try await PlainProxy(scene, to: upstream.port)
    // The answer is whole with its last byte: the connection stays open meanwhile.
    #expect(try await proxy.curl("/").text == "0123456789")
    go.raise()
  }

  @Test func `an upstream that closes before its head is a 502`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, number in
      _ = try wire.request()
      if number % 2 == 1 { try wire.write("HTTP/1.1 200 OK\r\nContent-Le") }
      if number % 3 == 2 { wire.reset() }
    }
    let proxy = try await PlainProxy(scene, to: upstream.port)
    for _ in 0..<6 { #expect(try await proxy.curl("/").status == 502) }
    try await proxy.daemon.logged("[error]", "upstream prematurely closed connection while reading response header")
  }

  @Test func `the line of a kept connection that broke says how long it had idled, and a new one has no such words`()
    async throws
  {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, number in
      _ = try wire.request()
      if number > 0 { return }
      try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
      _ = try wire.request()
    }
    let port = try scene.port()
    // Each worker has kept connections of its own.
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream kept { server 127.0.0.1:\(upstream.port) max_fails=0; keepalive 1; }
        server { listen 127.0.0.1:\(port); location / { proxy_pass http://kept; proxy_http_version 1.1;
          proxy_set_header Connection ""; } }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "ok")
    // What can't be sent twice.
    #expect(try await scene.curl(["-d", "x", "http://127.0.0.1:\(port)/"]).status == 502)
    try await daemon.logged(
      "upstream prematurely closed connection while reading response header from upstream, on a kept connection that had "
        + "been idle for ")
    #expect(try await scene.curl(["-d", "x", "http://127.0.0.1:\(port)/"]).status == 502)
    #expect(daemon.errorLog.split(separator: "\n").count { $0.contains("on a kept connection") } == 1)
  }

  @Test func `an upstream that nobody listens for is a 502`() async throws {
    let scene = try Scene.ofTest()
    let proxy = try await PlainProxy(scene, to: scene.port())
    #expect(try await proxy.curl("/").status == 502)
    try await proxy.daemon.logged("[error]", "connect() failed (111: Connection refused) while connecting to upstream")
  }

  enum Break: Sendable, CaseIterable {
    case length, chunks, chunkedWithoutEnd, lengthByReset, chunksByReset
  }

  @Test(arguments: Break.allCases, [true, false])
  func `a body that breaks off is never a complete answer`(kind: Break, buffering: Bool) async throws {
    let scene = try Scene.ofTest()
    let body = Pattern.bytes(100_000)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      switch kind {
      case .length, .lengthByReset:
        try wire.write(Array("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n".utf8) + body)
      case .chunks, .chunksByReset:
        try wire.write(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n30d40\r\n".utf8) + body)
      case .chunkedWithoutEnd:
        try wire.write(Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n".utf8) + body + [13, 10])
      }
      if kind == .lengthByReset || kind == .chunksByReset { wire.reset() }
    }
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "\(PlainProxy.kept) proxy_buffering \(buffering ? "on" : "off");")
    // A client of 1.0 can see a missing end only by the reset.
    for version in scene.speech == .http1 ? [[], ["--http1.0"]] : [[]] {
      let result = try await proxy.curl("/", version)
      #expect(result.isBrokenOff || result.status == 502, "\(version): \(result.exit)")
      #expect(result.body.count <= body.count && result.body.elementsEqual(body.prefix(result.body.count)))
    }
    guard scene.speech == .http1 else { return }
    let next = try await proxy.talk { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
      return try wire.readToEnd()
    }
    #expect(
      String(decoding: next, as: UTF8.self).split(separator: "HTTP/1.1 ").count == 1, "one answer, then the close")
  }

  @Test func `a body that stalls is cut off after proxy_read_timeout`() async throws {
    let scene = try Scene.ofTest()
    let begin = Array("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n".utf8) + Pattern.bytes(100_000)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      try wire.write(begin)
      while try !wire.readSome().isEmpty {}
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, location: "proxy_read_timeout 1s;")
    let result = try await proxy.curl("/")
    #expect(result.status == 200)
    #expect(result.isBrokenOff, "\(result.exit)")
    #expect(result.body.count < 200_000)
    try await proxy.daemon.logged("[error]", "upstream timed out (110: Connection timed out) while reading upstream")
  }

  @Test func `an answer that does not come in time is a 504`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in while try !wire.readSome().isEmpty {} }
    let proxy = try await PlainProxy(scene, to: upstream.port, location: "proxy_read_timeout 300ms;")
    #expect(try await proxy.curl("/").status == 504)
    try await proxy.daemon.logged(
      "[error]", "upstream timed out (110: Connection timed out) while reading response header")
  }

  @Test func `interim answers are not the answer`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      try wire.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
      try wire.answer("final")
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, location: PlainProxy.kept)
    let result = try await proxy.curl("/")
    #expect(result.status == 200 && result.text == "final")
  }
}

@Suite(.stagedOverBoth) struct `Kept connections and other servers` {
  @Test func `connections to the upstream are kept`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    for _ in 0..<20 { #expect(try await proxy.curl("/bytes/10").status == 200) }
    // One for each of the two workers.
    #expect(upstream.connections <= 2)
    let bare = try await PlainProxy(
      Scene.besides(scene), to: upstream.port, location: "proxy_http_version 1.0; proxy_set_header Connection close;")
    let before = upstream.connections
    for _ in 0..<3 { #expect(try await bare.curl("/bytes/10").status == 200) }
    #expect(upstream.connections == before + 3)
    #expect(upstream.receivedText.contains("GET /bytes/10 HTTP/1.0\r\n"))
    #expect(upstream.receivedText.contains("Connection: close"))
  }

  /// An upstream that gives one answer on each connection, and closes it with the next request, unanswered.
  private func dying(_ scene: Scene) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, number in
      _ = try wire.request()
      try wire.answer("\(number)")
      _ = try wire.request()
    }
  }

  @Test func `a kept connection found dead is tried anew for GET`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try dying(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    for _ in 0..<8 { #expect(try await proxy.curl("/").status == 200) }
  }

  @Test func `a kept connection found dead is not tried anew for POST`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try dying(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    var statuses: [Int] = []
    for _ in 0..<8 { statuses.append(try await proxy.curl("/", input: Array("once".utf8)).status) }
    #expect(statuses.contains(502))
    // Each of the eight reached the upstream once.
    #expect(upstream.receivedText.split(separator: "POST / HTTP/1.1").count == 8)
  }

  @Test func `the next server is asked when the first refuses`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let (dead, port) = try (scene.port(), scene.port())
    let daemon = try await Sallyport.serve(
      scene,
      """
      log_format tries '$upstream_addr|$upstream_status|$status'; access_log tries.log tries;
      upstream two { server 127.0.0.1:\(dead) max_fails=0; server 127.0.0.1:\(upstream.port); }
      server { listen 127.0.0.1:\(port);
        location / { proxy_pass http://two; }
        location /off { proxy_pass http://two; proxy_next_upstream off; } }
      """)
    for index in 0..<6 {
      let result = try await scene.curl(["http://127.0.0.1:\(port)/echo"], input: Array("body \(index)".utf8))
      #expect(result.status == 200 && result.text == "body \(index)")
    }
    try await until("the log") { scene.text("tries.log").split(separator: "\n").count == 6 }
    #expect(scene.text("tries.log").contains("127.0.0.1:\(dead), 127.0.0.1:\(upstream.port)|502, 200|200"))
    var statuses: Set<Int> = []
    for _ in 0..<8 { statuses.insert(try await scene.curl(["http://127.0.0.1:\(port)/off"]).status) }
    #expect(statuses == [200, 502])
    #expect(daemon.errorLog.contains("Connection refused"))
  }

  @Test func `http_503 is passed to the next server, where it is said`() async throws {
    let scene = try Scene.ofTest()
    let busy = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in try wire.answer("busy", status: "503 Busy") }
    }
    let good = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      upstream two { server 127.0.0.1:\(busy.port); server 127.0.0.1:\(good.port) backup; }
      upstream same { server 127.0.0.1:\(busy.port); server 127.0.0.1:\(busy.port); }
      server { listen 127.0.0.1:\(port); proxy_next_upstream error http_503;
        location / { proxy_pass http://two; }
        location /plain { proxy_pass http://two; proxy_next_upstream error; }
        location /same { proxy_pass http://same; } }
      """)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/plain"]).text == "busy")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/bytes/3"]).status == 200)
    // Nobody is left to ask: the answer is the upstream's own.
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/same"]).status == 503)
  }

  @Test func `a server that failed max_fails times is left out`() async throws {
    let scene = try Scene.ofTest()
    let failing = try ScriptedUpstream(scene) { wire, _ in _ = try wire.requestHead() }
    let good = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      upstream two { server 127.0.0.1:\(failing.port) max_fails=1 fail_timeout=60s; server 127.0.0.1:\(good.port); }
      server { listen 127.0.0.1:\(port); location / { proxy_pass http://two; } }
      """)
    for _ in 0..<12 { #expect(try await scene.curl(["http://127.0.0.1:\(port)/bytes/3"]).status == 200) }
    // Once for each of the two workers.
    #expect(failing.connections <= 2)
  }

  @Test func `servers take turns by weight, and a backup waits`() async throws {
    let scene = try Scene.ofTest()
    let servers = try (0..<3).map { index in
      try ScriptedUpstream(scene) { wire, _ in try wire.serve { _ in try wire.answer("\(index)") } }
    }
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream many { server 127.0.0.1:\(servers[0].port) weight=3; server 127.0.0.1:\(servers[1].port);
          server 127.0.0.1:\(servers[2].port) backup; }
        server { listen 127.0.0.1:\(port); location / { proxy_pass http://many; } }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    var counts = [0, 0, 0]
    for _ in 0..<12 {
      let text = try await scene.curl(["http://127.0.0.1:\(port)/"]).text
      counts[Int(text) ?? 0] += 1
    }
    #expect(counts == [9, 3, 0])
  }

  @Test func `a unix socket is an upstream`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let socket = scene.path("up.sock")
    _ = try await NginxUpstream.start(
      scene, ports: [], sockets: [socket], "server { listen unix:\(socket); return 200 \"$request_uri $host\"; }")
    _ = try await Sallyport.serve(
      scene,
      """
      upstream group { server unix:\(socket); }
      server { listen 127.0.0.1:\(port);
        location / { proxy_pass http://unix:\(socket); }
        location /moved/ { proxy_pass http://unix:\(socket):/elsewhere/; }
        location /group { proxy_pass http://group; } }
      """)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/a?b=c"]).text == "/a?b=c localhost")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/moved/x"]).text == "/elsewhere/x localhost")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/group"]).text == "/group group")
  }

  @Test func `python's http server is an upstream`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try scene.port()
    try scene.makeFolder("site")
    try scene.write("site/file.txt", Pattern.bytes(123_456))
    let server = try ChildProcess(
      "python3", ["-m", "http.server", "--bind", "127.0.0.1", "--directory", scene.path("site"), "\(upstream)"],
      in: scene.folder, output: scene.path("python.out"), errors: scene.path("python.err"))
    scene.atEnd { server.stop() }
    try await until("python to listen") { (try? Wire.dial(port: upstream)) != nil }
    let proxy = try await PlainProxy(scene, to: upstream, kept: true)
    #expect(Pattern.equal(try await proxy.curl("/file.txt").body, Pattern.bytes(123_456)))
    #expect(try await proxy.curl("/none").status == 404)
    #expect(try await proxy.curl("/", ["-I"]).status == 200)
    #expect(try await proxy.curl("/", input: Array("x".utf8)).status == 501)
  }
}

extension Scene {
  /// A second folder for a second daemon of the same test.
  static func besides(_ scene: Scene) throws -> Scene {
    let second = try Scene(scene.speech)
    scene.atEnd { second.end() }
    scene.onFailure(show: "the second daemon") { second.report }
    return second
  }
}
