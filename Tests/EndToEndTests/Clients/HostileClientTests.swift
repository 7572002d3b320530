import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `Hostile clients` {
  private func start(
    _ scene: Scene, _ cast: Cast, upstream: UInt16, server: String = "", events: String = "worker_connections 256;",
    workers: Int = 2, launcher: [String] = []
  ) async throws -> (daemon: Sallyport, port: UInt16) {
    let port = try scene.port()
    let daemon = try Sallyport(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(server)
          location / { proxy_pass http://127.0.0.1:\(upstream); \(PlainProxy.kept) } }
        """
      ).replacing("worker_connections 256;", with: events)
        .replacing("worker_processes 2", with: "worker_processes \(workers)"), launcher: launcher)
    try await daemon.untilReady()
    return (daemon, port)
  }

  private func serves(_ scene: Scene, _ cast: Cast, _ port: UInt16) async throws -> Bool {
    try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/bytes/3"]).status == 200
  }

  @Test func `who shakes no hands is cut off after client_header_timeout`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let (daemon, port) = try await start(
      scene, cast, upstream: upstream.port, server: "client_header_timeout 300ms;")
    // The first bytes of a ClientHello, or none, and then silence.
    for bytes in [[], [0x16, 0x03, 0x01], [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xFC, 0x03, 0x03]]
      as [[UInt8]]
    {
      try await scene.talk(port) { wire in
        try wire.write(bytes)
        #expect(try wire.isClosedByPeer())
      }
    }
    // A whole handshake, and then silence, which ends without a word, or half a head.
    for (text, begins) in [("", ""), ("GET / HTTP/1.1\r\nHost: loc", "HTTP/1.1 408 ")] {
      let answer = try await scene.talk(tls: port, identity: cast.alice) { wire in
        try wire.write(text)
        return String(decoding: try wire.readToEnd(), as: UTF8.self)
      }
      #expect(answer.hasPrefix(begins) && answer.isEmpty == begins.isEmpty, "\(text)")
    }
    #expect(upstream.connections == 0)
    #expect(try await serves(scene, cast, port))
    #expect(!daemon.errorLog.contains("[error]"))
  }

  @Test func `a head that comes a byte at a time is bounded in all, not byte by byte`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, server: "client_header_timeout 500ms;")
    let sent = try await proxy.talk { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: h\r\n")
      // Each byte comes well within the time, the head as a whole never does.
      var sent = 0
      do {
        while sent < 1000 {
          try wire.write("x")
          sent += 1
          usleep(20_000)
        }
      } catch {}
      return sent
    }
    #expect(sent < 1000)
    #expect(upstream.connections == 0)
  }

  @Test func `a handshake that is cut at any place harms nobody`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let (daemon, port) = try await start(scene, cast, upstream: upstream.port)
    // A relay that lets so many bytes of the client's through and then closes, or resets.
    let relays = try [1, 5, 100, 300, 600, 900, 1200].flatMap { limit in
      try [false, true].map { resets in
        try ScriptedUpstream(scene) { client, _ in
          let server = try Wire.dial(port: port)
          let back = Flag()
          defer { back.raise() }
          var left = limit
          while left > 0 {
            let bytes = try client.readSome(left)
            if bytes.isEmpty { break }
            try server.write(bytes)
            left -= bytes.count
            if left > 0 { try client.write(server.readSome()) }
          }
          if resets { server.reset() } else { server.close() }
        }
      }
    }
    for relay in relays {
      let result = try await scene.curl(cast.to(relay.port) + cast.alice.curl + ["https://localhost/"])
      #expect(result.exit != 0)
    }
    #expect(upstream.connections == 0)
    #expect(try await serves(scene, cast, port))
    #expect(!daemon.errorLog.contains("[error]") && !daemon.errorLog.contains("[alert]"))
  }

  @Test func `noise instead of a handshake harms nobody`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let (daemon, port) = try await start(scene, cast, upstream: upstream.port)
    for seed in 0..<40 {
      let noise = Array(Pattern.bytes(4096 + seed)[seed...])
      _ = try await scene.talk(port) { wire in
        // A record that announces a handshake, so that OpenSSL reads on.
        try wire.write((seed % 2 == 0 ? [0x16, 0x03, 0x01, 0x10, 0x00] : []) + noise)
        wire.finishWriting()
        return try wire.readToEnd()
      }
    }
    #expect(upstream.connections == 0)
    #expect(try await serves(scene, cast, port))
    #expect(!daemon.errorLog.contains("[error]") && !daemon.errorLog.contains("[alert]"))
  }

  @Test(arguments: ["on", "off"]) func `a client that resets in the middle of its body ends its exchange`(
    buffering: String
  ) async throws {
    let scene = try Scene.ofTest()
    let ended = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      while let request = try? wire.request() { try wire.answer(request.text) }
      ended.raise()
    }
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "\(PlainProxy.kept) proxy_request_buffering \(buffering);")
    let client = try Wire.dial(port: proxy.port)
    try client.write(
      Array("POST /cut HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n".utf8) + Pattern.bytes(40_000))
    if buffering == "off" {
      try await until("part of the body at the upstream") { upstream.received.first?.count ?? 0 > 30_000 }
    }
    client.reset()
    try await until("the access log's line") { scene.text("access.log").contains("\"POST /cut HTTP/1.1\"") }
    if buffering == "off" {
      try await until("the end at the upstream") { ended.isRaised }
    } else {
      #expect(upstream.connections == 0)
    }
    #expect(try await proxy.curl("/", input: Array("next".utf8)).text == "next")
    #expect(!proxy.daemon.errorLog.contains("[error]") && !proxy.daemon.errorLog.contains("[alert]"))
  }

  @Test func `a client that resets in the middle of the answer ends it at the upstream`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let stopped = Flag()
    let upstream = try ScriptedUpstream(scene, records: false) { wire, number in
      _ = try wire.request()
      if number > 0 { return try wire.answer("next") }
      try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
      do { while true { try wire.write(Pattern.bytes(1 << 20)) } } catch { stopped.raise() }
    }
    let (_, port) = try await start(scene, cast, upstream: upstream.port)
    let client = try OpenSSLClient(scene, port: port, identity: cast.alice)
    try client.wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    _ = try await offPool { try client.wire.read(exactly: 100_000) }
    // The system closes a killed process's socket with unread bytes in it: a reset.
    client.process.signal(SIGKILL)
    try await until("the upstream to be told") { stopped.isRaised }
    #expect(try await serves(scene, cast, port))
  }

  @Test func `each byte may come in a TLS record of its own`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let (_, port) = try await start(scene, cast, upstream: upstream.port)
    let result = try await scene.python(.records, "\(port)", scene.folder)
    #expect(result.text.hasPrefix("HTTP/1.1 200 OK\r\n"), "\(result.everything)")
    #expect(result.text.hasSuffix(String(repeating: "0123456789", count: 50)))
  }

  @Test func `10000 header fields are refused, from clients and from upstreams`() async throws {
    let scene = try Scene.ofTest()
    let many = (0..<10_000).map { "X-\($0): v\r\n" }.joined()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      try wire.write("HTTP/1.1 200 OK\r\n\(many)Content-Length: 0\r\n\r\n")
    }
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      large_client_header_buffers 4 1m; proxy_buffer_size 1m;
      server { listen 127.0.0.1:\(port);
        location / { return 200 ok; }
        location /up { proxy_pass http://127.0.0.1:\(upstream.port); } }
      """)
    let answer = try await scene.talk(port) { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: h\r\n\(many)\r\n")
      return (try wire.response(), try wire.isClosedByPeer())
    }
    #expect(answer.0.status == 400 && answer.1)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/up"]).status == 502)
    try await daemon.logged("[error]", "upstream sent invalid header")
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "ok")
  }

  @Test(arguments: [7, 8]) func `worker_connections bounds busy connections, and those who end make room`(
    bound: Int
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let go = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in
        go.wait()
        try wire.answer("held")
      }
    }
    let (daemon, port) = try await start(
      scene, cast, upstream: upstream.port, events: "worker_connections \(bound);", workers: 1)
    // A client and its upstream each: 6 of 7 connections, or all of 8, and none of them idle.
    let crowd = try (0..<bound / 2).map { _ in try OpenSSLClient(scene, port: port, identity: cast.alice) }
    for client in crowd { try client.wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") }
    try await until("the requests at the upstream") { upstream.requests("GET") == crowd.count }
    if bound == 8 {
      #expect(try await scene.talk(port) { try $0.isClosedByPeer() })
    } else {
      let late = try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"])
      #expect(late.status >= 500 && upstream.connections == crowd.count)
    }
    try await daemon.logged("\(bound) worker_connections are not enough")
    go.raise()
    for client in crowd { #expect(try await offPool { try client.wire.response().text } == "held") }
    for client in crowd { client.wire.close() }
    try await until("room") { try await serves(scene, cast, port) }
  }

  @Test func `without descriptors accepting rests, and goes on when there are some`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let (daemon, port) = try await start(scene, cast, upstream: upstream.port, workers: 1)
    // Fewer than the start knew of.
    try await scene.succeed("prlimit", "--pid", "\(daemon.process.identifier)", "--nofile=48:")
    let crowd = try (0..<80).map { _ in try Wire.dial(port: port) }
    try await daemon.logged("[crit]", "accept4() failed (24: Too many open files)")
    // It rests half a second each time: a loop that spins would have folded thousands in ten seconds.
    let summary = try await daemon.logged(
      "[crit]", "accept4() failed (24: Too many open files) (", " more of these in 1")
    let folded = summary.split(separator: "open files) (").last?.split(separator: " ").first.flatMap { Int($0) }
    #expect(folded.map { $0 >= 3 && $0 <= 25 } == true, "\(summary)")
    #expect(daemon.errorLog.split(separator: "\n").count { $0.contains("(24: ") } <= 10)
    for wire in crowd { wire.close() }
    try await until("room") { try await serves(scene, cast, port) }
    #expect(daemon.process.ending == nil)
  }

  @Test func `a crowd that takes every descriptor leaves a reload what it needs`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let (daemon, port) = try await start(
      scene, cast, upstream: upstream.port, workers: 1, launcher: ["prlimit", "--nofile=160:160"])
    #expect(scene.text("sallyport.stderr").contains("256 worker_connections exceed open file resource limit: 160"))
    let crowd = try (0..<200).map { _ in try Wire.dial(port: port) }
    try await daemon.logged("connections, all that the limit of open files leaves a worker, are not enough")
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: ")
    for wire in crowd { wire.close() }
    try await until("room") { try await serves(scene, cast, port) }
  }

  @Test func `logs that can't be written are said once, and the service goes on`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration("server { listen 127.0.0.1:\(port); return 200 ok; }")
        .replacing("error_log error.log", with: "error_log /dev/full")
        .replacing("access_log access.log", with: "access_log /dev/full"))
    for _ in 0..<20 { #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "ok") }
    try await until("a word on stderr") {
      daemon.errors.contains("the log /dev/full loses lines: (28: No space left on device)")
    }
    #expect(daemon.errors.split(separator: "\n").count { $0.contains("/dev/full") } <= 2)
    daemon.signal(SIGQUIT)
    #expect(try await daemon.process.ended() == .exited(0))
  }
}
