import Foundation
import TestSupport
import Testing

@Suite(.staged) struct `Metrics of stream` {
  private func page(_ scene: Scene, _ port: UInt16) async throws -> PrometheusPage {
    try PrometheusPage(try await scene.page(port, "/metrics").text)
  }

  private func count(_ page: PrometheusPage, _ port: UInt16, _ result: String) -> Double? {
    page.value("sallyport_stream_connections_total", ["listen": "127.0.0.1:\(port)", "result": result])
  }

  /// An upstream that says what it hears.
  private func echo(_ scene: Scene) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, _ in
      while case let bytes = try wire.readSome(), !bytes.isEmpty { try wire.write(bytes) }
    }
  }

  private static let inside = "location = /metrics { metrics; } location = /status { status; }"

  @Test func `a session is counted while it lasts and at its end, and its lines are those of nginx`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try echo(scene)
    let port = try scene.port(), dead = try scene.port(), inside = try scene.port(), gone = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(inside); server_name in; \(Self.inside) }",
      main: """
        stream {
          upstream app { server 127.0.0.1:\(upstream.port); }
          server { listen 127.0.0.1:\(port); proxy_pass app; }
          server { listen 127.0.0.1:\(dead); server_name dead.test; proxy_pass 127.0.0.1:\(gone); }
        }
        """)
    let ours = ["server": "", "listen": "127.0.0.1:\(port)"]
    let client = try Wire.dial(port: port)
    defer { client.close() }
    try client.write("hello")
    #expect(try await offPool { try client.read(exactly: 5) } == Array("hello".utf8))
    // The bytes of a session that lasts.
    try await until("a sample of the session") {
      try await page(scene, inside).value("sallyport_stream_sent_bytes_total", ours) == 5
    }
    let first = try await page(scene, inside)
    #expect(first.value("sallyport_stream_connections_open", ours) == 1)
    #expect(first.value("sallyport_stream_received_bytes_total", ours) == 5)
    #expect(first.value("sallyport_client_connections", ["state": "stream"]) == 1)
    #expect(first.value("sallyport_stream_connections_total", ours) == 0)
    #expect(first.value("sallyport_requests_total", ours) == nil)
    client.close()
    try await until("the end") { try await count(page(scene, inside), port, "ok") == 1 }
    _ = try await scene.talk(dead) { try $0.readToEnd() }
    try await until("the failure") { try await count(page(scene, inside), dead, "upstream") == 1 }
    let last = try await page(scene, inside)
    #expect(last.value("sallyport_stream_connections_open", ours) == 0)
    #expect(last.value("sallyport_stream_received_bytes_total", ours) == 5)
    #expect(last.value("sallyport_stream_connection_duration_seconds_count", ours) == 1)
    let app = ["upstream": "app", "server": "127.0.0.1:\(upstream.port)"]
    #expect(last.value("sallyport_upstream_attempts_total", app) == 1)
    #expect(last.value("sallyport_upstream_attempts_total", app.merging(["result": "connected"]) { $1 }) == 1)
    #expect(last.value("sallyport_upstream_response_head_seconds_count", app) == 1)
    #expect(last.value("sallyport_upstream_attempts_total", ["server": "127.0.0.1:\(gone)", "result": "connect"]) == 1)
    // The manual names each.
    let manual = try String(contentsOfFile: "\(checkout)/docs/operating/observe.md", encoding: .utf8)
    for name in last.kinds.keys where name.hasPrefix("sallyport_stream_") {
      #expect(manual.contains("`\(name)"), "\(name)")
    }

    try await daemon.logged("client disconnected")
    let log = scene.text("error.log")
    for line in [
      #/\*\d+ client 127\.0\.0\.1:\d+ connected to 127\.0\.0\.1:\d+\n/#,
      #/\*\d+ proxy 127\.0\.0\.1:\d+ connected to 127\.0\.0\.1:\d+\n/#,
      #/\*\d+ client disconnected, bytes from\/to client:5\/5, bytes from\/to upstream:5\/5\n/#,
      #/while connecting to upstream, client: 127\.0\.0\.1, server: dead\.test, upstream: "127\.0\.0\.1:\d+", bytes from\/to client:0\/0, bytes from\/to upstream:0\/0\n/#,
    ] {
      #expect(log.firstMatch(of: line) != nil, "\(log)")
    }
  }

  /// As in nginx, http and stream have groups of their own, whatever they are called.
  @Test func `a group of http and one of stream with the same name share neither counts nor places`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      guard try wire.readSome().starts(with: Array("GET".utf8)) else {
        try wire.write("heard")
        // The session lasts until its client ends it.
        _ = try wire.readSome()
        return
      }
      try wire.answer("ok", closing: true)
    }
    let port = try scene.port(), inside = try scene.port(), group = "upstream app { zone z 64k; server"
    _ = try await Sallyport.serve(
      scene,
      """
      \(group) 127.0.0.1:\(upstream.port) max_conns=1; }
      server { listen 127.0.0.1:\(inside); \(Self.inside) location /api { api; }
        location / { proxy_pass http://app; } }
      """,
      main: """
        stream {
          \(group) 127.0.0.1:\(upstream.port) max_conns=1; }
          server { listen 127.0.0.1:\(port); proxy_pass app; }
        }
        """)
    // Its session has the only place of stream's group.
    let client = try Wire.dial(port: port)
    defer { client.close() }
    try client.write("hello")
    #expect(try await offPool { try client.read(exactly: 5) } == Array("heard".utf8))
    #expect(try await scene.curl(["http://127.0.0.1:\(inside)/"]).text == "ok")
    let text = try await scene.page(inside, "/metrics").text
    let server = "upstream=\"app\",server=\"127.0.0.1:\(upstream.port)\""
    for (labels, count) in [
      ("result=\"2xx\"", 1), ("result=\"connected\",block=\"stream\"", 1), ("result=\"2xx\",block=\"stream\"", 0),
    ] {
      #expect(text.contains("sallyport_upstream_attempts_total{\(server),\(labels)} \(count)\n"), "\(labels)")
    }
    for (block, active, count) in [("http", 0, "requests"), ("stream", 1, "connections")] {
      let shown = try await scene.curl(["http://127.0.0.1:\(inside)/api/9/\(block)/upstreams/app"]).text
      #expect(shown.contains("\"active\":\(active),") && shown.contains("\"\(count)\":1,"), "\(shown)")
    }
  }

  @Test func `each refusal has its word, on the page of status too`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let mallory = try scene.identity("mallory", TestAuthority("Other").client())
    let upstream = try echo(scene)
    let secure = try scene.port(), closed = try scene.port(), narrow = try scene.port(), inside = try scene.port()
    let passing = try scene.port(), text = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      "server { listen 127.0.0.1:\(inside); server_name in; \(Self.inside) }",
      main: """
        stream {
          limit_conn_zone $server_port zone=c:1m;
          server { listen 127.0.0.1:\(secure) ssl; server_name localhost; \(Cast.tls) ssl_client_allow cn=alice;
            proxy_pass 127.0.0.1:\(upstream.port); }
          server { listen 127.0.0.1:\(closed); deny all; proxy_pass 127.0.0.1:\(upstream.port); }
          server { listen 127.0.0.1:\(narrow); limit_conn c 1; proxy_pass 127.0.0.1:\(upstream.port); proxy_timeout 3s; }
          server { listen 127.0.0.1:\(passing); pass 127.0.0.1:\(text); }
          server { listen 127.0.0.1:\(text); return hello; }
        }
        """)
    func connect(_ who: IdentityFiles?) async throws -> [UInt8] {
      try await scene.talk(tls: secure, identity: who) { wire in
        try? wire.write("hello")
        return (try? wire.read(exactly: 5)) ?? []
      }
    }
    #expect(try await connect(cast.alice) == Array("hello".utf8))
    #expect(try await connect(bob).isEmpty)
    #expect(try await connect(mallory).isEmpty)
    #expect(try await connect(nil).isEmpty)
    _ = try await scene.talk(secure) { wire in
      try wire.write("GET / HTTP/1.0\r\n\r\n")
      // Its protocol isn't HTTP, so no page answers.
      #expect((try? wire.readToEnd()) == [])
    }
    _ = try await scene.talk(closed) { try? $0.readToEnd() }
    let holder = try Wire.dial(port: narrow)
    defer { holder.close() }
    try holder.write("x")
    #expect(try await offPool { try holder.read(exactly: 1) } == [0x78])
    _ = try await scene.talk(narrow) { try? $0.readToEnd() }
    #expect(try await scene.talk(passing) { try $0.readToEnd() } == Array("hello".utf8))
    for (port, result, expected) in [
      (secure, "refused-rule", 1.0), (secure, "refused-certificate", 2), (secure, "handshake", 1),
      (closed, "refused-address", 1), (narrow, "limited", 1), (narrow, "timeout", 1), (passing, "passed", 1),
      (text, "ok", 1),
    ] {
      try await until("\(result)") { try await count(page(scene, inside), port, result) == expected }
    }
    let status = try await scene.curl(["http://127.0.0.1:\(inside)/status"]).text
    #expect(status.contains("<h2>TCP servers</h2>") && status.contains("refused-rule"))
    let json = try await scene.curl(["http://127.0.0.1:\(inside)/status?format=json"]).body
    let object = try #require(try JSONSerialization.jsonObject(with: Data(json)) as? [String: Any])
    let streams = try #require(object["streams"] as? [[String: Any]])
    let ours = streams.first { $0["server"] as? String == "localhost" }
    #expect((ours?["connections"] as? [String: Any])?["refused-certificate"] as? Int == 2)
    #expect((object["servers"] as? [[String: Any]])?.count == 1)

    // A reload that refuses a client ends its session.
    let kept = try OpenSSLClient(scene, port: secure, identity: cast.alice)
    try kept.wire.write("hello")
    #expect(try await offPool { try kept.wire.read(exactly: 5) } == Array("hello".utf8))
    try daemon.rewrite(
      scene.text("sallyport.conf").replacing("ssl_client_allow cn=alice", with: "ssl_client_allow cn=bob"))
    daemon.signal(SIGHUP)
    try await until("the end of alice's session") {
      (try await count(self.page(scene, inside), secure, "revoked") ?? 0) >= 1
    }
    try await daemon.logged("the connection was cut after a reload:")
  }
}
