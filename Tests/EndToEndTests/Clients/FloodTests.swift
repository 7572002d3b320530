import Glibc
import TestSupport
import Testing

/// Clients that make work or take places, and carry nothing.
@Suite(.staged) struct `Floods of clients` {
  private struct Front {
    let scene: Scene, cast: Cast, daemon: Sallyport, port: UInt16
    private let plain: UInt16

    init(http: String = "", location: String = "return 200 ok;") async throws {
      scene = try Scene.ofTest()
      cast = try Cast(scene)
      (port, plain) = (try scene.port(), try scene.port())
      daemon = try await Sallyport.start(
        scene,
        """
        worker_processes 1; error_log error.log info; pid sallyport.pid;
        events { worker_connections 1024; }
        http { access_log off; \(http)
          server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) location / { \(location) } }
          server { listen 127.0.0.1:\(plain); location / { metrics; } } }
        """)
    }

    /// The count of an event of a limit.
    func events(_ name: String) async throws -> Int {
      let page = try await scene.page(plain, "/").text
      let row = page.split(separator: "\n").first { $0.hasPrefix("sallyport_limits_total{event=\"\(name)\"}") }
      return row?.split(separator: " ").last.flatMap { Int($0) } ?? -1
    }

    /// Sends a POST of Alice's whose head ends so, and then ten bytes a second.
    func trickle(_ end: String) async throws -> ToolResult {
      try await scene.run(
        "sh",
        [
          "-c",
          """
          (printf 'POST / HTTP/1.1\r\nHost: localhost\r\n\(end)'
           for i in $(seq 100); do printf x || exit; sleep 0.1; done) | \
            openssl s_client -quiet -connect 127.0.0.1:\(port) -servername localhost -cert alice.pem -key alice.key
          """,
        ])
    }

    /// How many connections of clients the worker has.
    func connections() async throws -> Int {
      let page = try await scene.page(plain, "/").text
      let rows = page.split(separator: "\n").filter { $0.hasPrefix("sallyport_client_connections{") }
      return rows.reduce(0) { $0 + ($1.split(separator: " ").last.flatMap { Int($0) } ?? 0) }
    }

    func alice(from address: String = "127.0.0.1") async throws -> String {
      try await scene.curl(cast.to(port) + cast.alice.curl + ["--interface", address, "https://localhost/"]).text
    }

    /// Whether a client is served.
    func answers() async throws -> Bool {
      try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/"]).status == 200
    }

    /// Waits for what sallyport does once a second.
    func has(_ event: String, atLeast count: Int = 1) async throws -> Bool {
      for _ in 0..<100 {
        if try await events(event) >= count { return true }
        try await Task.sleep(for: .milliseconds(100))
      }
      return false
    }
  }

  @Test func `stalled handshakes of one address leave turns to others, and are ended for those that wait`() async throws
  {
    let front = try await Front(http: "ssl_handshake_limit 4 per_address=2;")
    let stalled = try await offPool {
      try (0..<6).map { _ in
        let wire = try Wire.dial(port: front.port)
        try wire.write([0x16, 0x03, 0x01, 0x02, 0x00, 0x01])
        return wire
      }
    }
    #expect(try await front.has("handshake_waited", atLeast: 4))
    #expect(try await front.alice(from: "127.0.0.2") == "ok")
    // The address of the flood waits until the stalled ones have taken three seconds.
    #expect(try await front.alice() == "ok")
    #expect(try await front.events("handshake_ended") > 0)
    stalled.forEach { $0.close() }
  }

  @Test func `CVE-2011-1473: a client that only renews keys is ended, and others are served`() async throws {
    let front = try await Front()
    let client = try await front.scene.run(
      "sh",
      [
        "-c",
        """
        for i in $(seq 1000); do echo K || exit; sleep 0.01; done | \
          openssl s_client -connect 127.0.0.1:\(front.port) -servername localhost -tls1_3 \
            -cert alice.pem -key alice.key
        """,
      ])
    #expect(client.everything.contains("KEYUPDATE"))
    #expect(try await front.events("message_flood") == 1)
    #expect(try await front.alice() == "ok")
    try await front.daemon.logged("[info]", "client sent too many messages of the TLS handshake after it")
  }

  @Test func `CVE-2026-118899: KeyUpdates and close_notify in the middle of a body leave the worker idle`() async throws
  {
    let upstream = try ScriptedUpstream.echo(Scene.ofTest())
    let front = try await Front(location: "proxy_pass http://127.0.0.1:\(upstream.port);")
    let request = "POST / HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 1000\\r\\n\\r\\nabc"
    async let client = front.scene.run(
      "sh",
      [
        "-c",
        """
        (printf '\(request)'; for i in 1 2 3 4 5; do sleep 0.1; echo K; done; echo renewed > renewed; sleep 2) | \
          openssl s_client -connect 127.0.0.1:\(front.port) -servername localhost -tls1_3 \
            -cert alice.pem -key alice.key
        """,
      ])
    try await until("the client to have renewed its keys") { !front.scene.text("renewed").isEmpty }
    let before = try #require(front.daemon.ticks)
    // While the client waits in the middle of its body, nothing is to be done: a busy worker would take 100 of these.
    try await Task.sleep(for: .seconds(1))
    #expect(try #require(front.daemon.ticks) - before < 40)
    #expect(try await front.answers())
    #expect(try await client.everything.contains("KEYUPDATE"))
    // The server ends the connection, although the body isn't over.
    let ended = try await front.scene.tlsClient(
      front.port,
      TLSSteps(
        "tls", "send=POST / HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 1000\\r\\n\\r\\nabc", "notify", "wait"))
    #expect(ended.isEmpty)
    #expect(try await front.answers())
  }

  @Test func `CVE-2026-118899: some records without data are no harm, and a flood of them ends the connection`()
    async throws
  {
    let upstream = try ScriptedUpstream.echo(Scene.ofTest())
    let front = try await Front(location: "proxy_pass http://127.0.0.1:\(upstream.port);")
    let head = "send=POST / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\nContent-Length: 5\\r\\n\\r\\nab"
    let some = try await front.scene.tlsClient(
      front.port, TLSSteps("tls", head, "empty=20", "send=c", "empty=20", "send=de", "rest"))
    #expect(some.hasPrefix("HTTP/1.1 200 ") && some.contains("abcde"))
    let flood = try await front.scene.tlsClient(front.port, TLSSteps("tls", head, "empty=1000", "send=cde", "rest"))
    #expect(!flood.contains("HTTP/1.1 200 "))
    #expect(try await front.answers())
  }

  @Test func `CVE-2009-3555: no client renegotiates`() async throws {
    let front = try await Front()
    let client = try await front.scene.run(
      "sh",
      [
        "-c",
        """
        (sleep 0.3; echo R; sleep 1) | openssl s_client -connect 127.0.0.1:\(front.port) -servername localhost -tls1_2 \
          -cert alice.pem -key alice.key
        """,
      ])
    #expect(client.everything.contains("RENEGOTIATING") && client.everything.contains("no renegotiation"))
    #expect(try await front.alice() == "ok")
  }

  @Test func `a body that comes too slowly is refused with 408`() async throws {
    let front = try await Front(
      http: "client_body_timeout 1s; client_body_min_rate 1k;", location: "proxy_pass http://127.0.0.1:1;")
    let tls = try await front.trickle("Content-Length: 100000\r\n\r\n")
    #expect(tls.text.contains("HTTP/1.1 408 "))
    #expect(try await front.events("body_too_slow") == 1)
    try await front.daemon.logged("[info]", "less than 1024 bytes a second (client_body_min_rate)")
  }

  @Test(arguments: ["1;", "1\\r\\nx\\r\\n0\\r\\na: "])
  func `extensions of chunks and trailers are no body that comes`(beginning: String) async throws {
    let front = try await Front(
      http: "client_body_timeout 1s; client_body_min_rate 1k;", location: "proxy_pass http://127.0.0.1:1;")
    let tls = try await front.trickle("Transfer-Encoding: chunked\r\n\r\n\(beginning)")
    #expect(tls.text.contains("HTTP/1.1 408 "))
    #expect(try await front.events("body_too_slow") == 1)
  }

  @Test(.disabled(if: Sanitizer.isUsed, "a sanitizer has an allocator of its own"))
  func `memory goes back after many connections have ended`() async throws {
    let front = try await Front()
    let crowd = try await offPool {
      try (0..<400).map { _ in
        let wire = try Wire.dial(port: front.port)
        try wire.write([0x16, 0x03, 0x01, 0x02, 0x00, 0x01])
        return wire
      }
    }
    // A busy worker may otherwise accept each of them after its end, and never have many at a time.
    try await until("the worker to have all connections") { try await front.connections() >= 400 }
    for wire in crowd { wire.close() }
    #expect(try await front.has("memory_returned"))
  }
}
