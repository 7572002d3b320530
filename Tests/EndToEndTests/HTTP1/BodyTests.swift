import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `Bodies` {
  static let sizes = [0, 1, 1023, 16_384, 16_385, 65_536, 1_000_001, 5 << 20]
  static let unbounded = "client_max_body_size 0;"

  @Test(arguments: ["proxy_request_buffering on;", "proxy_request_buffering off;", PlainProxy.kept], [true, false])
  func `bodies of all sizes pass both ways, byte for byte`(location: String, chunked: Bool) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene, records: false)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: location, http: Self.unbounded)
    for size in Self.sizes {
      let body = Pattern.bytes(size)
      let up = try await proxy.curl("/echo", chunked ? ["-H", "Transfer-Encoding: chunked"] : [], input: body)
      #expect(up.status == 200 && Pattern.equal(up.body, body), "\(size) up")
      let down = try await proxy.curl("/\(chunked ? "chunked" : "bytes")/\(size)")
      #expect(down.status == 200 && Pattern.equal(down.body, body), "\(size) down, exit \(down.exit)")
    }
  }

  @Test func `bodies pass through both TLS doors`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (upstream, port) = try (scene.port(), scene.port())
    let files = try scene.makeFolder("files")
    for size in Self.sizes { try scene.write("files/\(size)", Pattern.bytes(size)) }
    _ = try await NginxUpstream.start(
      scene, ports: [upstream],
      """
      server { listen 127.0.0.1:\(upstream) ssl; ssl_certificate \(scene.path("server.pem"));
        ssl_certificate_key \(scene.path("server.key")); root \(files); keepalive_requests 5; }
      """)
    _ = try await Sallyport.serve(
      scene,
      """
      upstream files { server 127.0.0.1:\(upstream); keepalive 4; }
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        location / { proxy_pass https://files; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name localhost;
          \(PlainProxy.kept) }
      }
      """)
    for size in Self.sizes {
      let result = try await scene.curl(cast.to(port) + cast.alice.curl + ["https://localhost/\(size)"])
      #expect(result.status == 200 && Pattern.equal(result.body, Pattern.bytes(size)), "\(size)")
      #expect(result["Content-Length"] == "\(size)")
      #expect(result["ETag"] != nil)
    }
    let partial = try await scene.curl(cast.to(port) + cast.alice.curl + ["-r", "100-299", "https://localhost/1023"])
    #expect(partial.status == 206 && partial.body == Array(Pattern.bytes(300)[100...]))
  }

  @Test func `HEAD has the length and no body`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    let answers = try await scene.ask(proxy.port) { client in
      try client.begin("HEAD", "/bytes/1000")
      return try [client.response(), client.get("/bytes/5")]
    }
    #expect(answers[0]["Content-Length"] == "1000")
    #expect(answers[1].body == Pattern.bytes(5))
  }

  @Test func `requests without a length and their trailers pass to an upstream of HTTP/1.1`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: PlainProxy.kept + "proxy_request_buffering off;")
    let answer = try await scene.ask(proxy.port) { client in
      try client.begin("POST", "/echo", [("TE", "trailers")], body: .open)
      try client.send("hello")
      try client.send(" world")
      try client.end(trailers: [("X-Check", "17")])
      return try client.response()
    }
    #expect(answer.status == 200)
    #expect(answer.text == "hello world")
    #expect(answer["X-Trailer-X-Check"] == "17")
  }

  @Test(.ofHTTP1) func `extensions of chunks end here`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: PlainProxy.kept + "proxy_request_buffering off;")
    let answer = try await proxy.talk { wire in
      try wire.write(
        "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
          + "5;ext=\"a;b\"\r\nhello\r\n006\r\n world\r\n0\r\n\r\n")
      return try wire.response()
    }
    #expect(answer.status == 200)
    #expect(answer.text == "hello world")
    #expect(!upstream.receivedText.contains("ext="))
  }

  @Test func `trailers that proxy_hide_header names are not shown, and the others are`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in
        try wire.write(
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n"
            + "X-Sum: 1\r\nx-internal: secret\r\nX-Pad: secret\r\nX-Last: 2\r\n\r\n")
      }
    }
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "proxy_http_version 1.1; proxy_hide_header X-Internal;")
    let answer = try await scene.ask(proxy.port) { try $0.get("/", [("TE", "trailers")]) }
    #expect(answer.text == "hi")
    #expect(answer.trailers.map { $0.name.lowercased() } == ["x-sum", "x-last"])
  }

  @Test func `a chunked answer keeps its trailers for a client that takes them`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    let answer = try await scene.ask(proxy.port) { try $0.get("/chunked/70000", [("TE", "trailers")]) }
    #expect(answer.isChunked == (scene.speech == .http1))
    #expect(Pattern.equal(answer.body, Pattern.bytes(70_000)))
    #expect(answer.trailers.map { "\($0.name.lowercased()): \($0.value)" } == ["x-sum: 70000"])
  }

  @Test(.ofHTTP1) func `a client of HTTP/1.0 gets a chunked answer without chunks, ended by the close`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    let answer = try await proxy.talk { wire in
      try wire.write("GET /chunked/70000 HTTP/1.0\r\n\r\n")
      return try wire.response()
    }
    #expect(answer.status == 200)
    #expect(answer["Transfer-Encoding"] == nil)
    #expect(Pattern.equal(answer.body, Pattern.bytes(70_000)))
  }

  @Test func `a body without a length ends with the upstream's close`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      try wire.write("HTTP/1.0 200 OK\r\n\r\n")
      try wire.write(Pattern.bytes(300_000))
    }
    let proxy = try await PlainProxy(scene, to: upstream.port)
    let result = try await proxy.curl("/")
    #expect(result.exit == 0 && Pattern.equal(result.body, Pattern.bytes(300_000)))
  }

  @Test(arguments: ["on", "off"]) func `a client that expects 100-continue is told to go on`(buffering: String)
    async throws
  {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: "proxy_request_buffering \(buffering);")
    let (interim, answer) = try await scene.ask(proxy.port) { client in
      try client.begin("POST", "/echo", [("Expect", "100-continue")], body: .length(5))
      let interim = try client.interim()
      try client.send("hello", ends: true)
      return (interim, try client.response())
    }
    #expect(interim == 100)
    #expect(answer.status == 200 && answer.text == "hello")
  }

  @Test func `a body that is too large is refused before the upstream hears of it`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: "client_max_body_size 1k;")
    let announced = try await scene.ask(proxy.port) { try $0.post("/echo", Pattern.bytes(1025)) }
    #expect(announced.status == 413)
    #expect(upstream.connections == 0)
    let expecting = try await scene.ask(proxy.port) { client in
      try client.begin("POST", "/", [("Expect", "100-continue")], body: .length(2000))
      return try client.response()
    }
    #expect(expecting.status == 413)
    let open = try await scene.ask(proxy.port) { try $0.post("/echo", Pattern.bytes(4000), isOpen: true) }
    #expect(open.status == 413)
    #expect(try await proxy.curl("/echo", input: Pattern.bytes(1024)).status == 200)
  }

  @Test func `a body that is buffered is seen by the upstream only when it is whole`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: "proxy_request_buffering on;")
    let seen = try await scene.ask(proxy.port) { client in
      try client.begin("POST", "/echo", body: .length(10))
      try client.send("12345")
      // A second connection's exchange comes and goes meanwhile.
      let other = try Wire.dial(port: proxy.port)
      try other.write("GET /one HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
      _ = try other.response()
      let seen = upstream.requests("POST")
      try client.send("67890", ends: true)
      #expect(try client.response().text == "1234567890")
      return seen
    }
    #expect(seen == 0)
  }

  @Test func `a body that is not buffered goes on as it comes`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: "proxy_request_buffering off;")
    let hasHalf = Flag()
    scene.atEnd { hasHalf.raise() }
    async let answer = scene.ask(proxy.port) { client in
      try client.begin("POST", "/echo", body: .length(10))
      try client.send("12345")
      hasHalf.wait()
      try client.send("67890", ends: true)
      return try client.response()
    }
    try await until("the first half at the upstream") { upstream.receivedText.hasSuffix("12345") }
    hasHalf.raise()
    #expect(try await answer.text == "1234567890")
  }

  @Test func `an answer that comes before the whole body reaches the client`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.requestHead()
      try wire.answer("early\n", status: "403 Forbidden", closing: true)
      while try !wire.readSome().isEmpty {}
    }
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "proxy_request_buffering off;", http: Self.unbounded)
    let answer = try await scene.ask(proxy.port) { client in
      try client.begin("POST", "/", body: .length(5_000_000))
      try client.send(Pattern.bytes(1000))
      return try client.response()
    }
    #expect(answer.status == 403 && answer.text == "early\n")
  }
}
