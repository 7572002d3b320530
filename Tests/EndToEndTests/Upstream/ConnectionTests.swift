import TestSupport
import Testing

@Suite(.staged) struct `Client connections` {
  @Test func `pipelined requests are answered in order`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    let answers = try await proxy.talk { wire in
      let requests = (0..<60).map { index in
        index % 3 == 1
          ? "POST /echo/\(index) HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
          : index % 3 == 2
            ? "POST /echo/\(index) HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n"
            : "GET /bytes/\(index * 1000) HTTP/1.1\r\nHost: h\r\n\r\n"
      }
      try wire.write(requests.joined())
      return try (0..<60).map { _ in try wire.response() }
    }
    for (index, answer) in answers.enumerated() {
      #expect(answer["X-Target"]?.hasSuffix("/\(index % 3 == 0 ? index * 1000 : index)") == true)
      let body = index % 3 == 0 ? Pattern.bytes(index * 1000) : Array((index % 3 == 1 ? "abc" : "de").utf8)
      #expect(Pattern.equal(answer.body, body))
    }
  }

  @Test func `pipelined requests over TLS are answered in order`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        location / { proxy_pass http://127.0.0.1:\(upstream.port); } }
      """)
    let answers = try await scene.talk(tls: port, identity: cast.alice) { wire in
      try wire.write((0..<20).map { "GET /bytes/\($0 * 7000) HTTP/1.1\r\nHost: localhost\r\n\r\n" }.joined())
      return try (0..<20).map { _ in try wire.response() }
    }
    for (index, answer) in answers.enumerated() { #expect(Pattern.equal(answer.body, Pattern.bytes(index * 7000))) }
  }

  @Test func `a connection is kept as the client and keepalive_requests say`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, server: "keepalive_requests 3; keepalive_timeout 30s 25s;")
    let answers = try await proxy.talk { wire in
      let answers = try (0..<3).map { _ in
        try wire.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        return try wire.response()
      }
      #expect(try wire.isClosedByPeer())
      return answers
    }
    #expect(answers[0]["Connection"]?.lowercased() != "close")
    #expect(answers[0]["Keep-Alive"] == "timeout=25")
    #expect(answers[2]["Connection"]?.lowercased() == "close")
    let old = try await proxy.talk { wire in
      try wire.write("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
      let first = try wire.response()
      try wire.write("GET / HTTP/1.0\r\n\r\n")
      let second = try wire.response()
      return (first["Connection"]?.lowercased(), second.status, try wire.isClosedByPeer())
    }
    #expect(old.0 == "keep-alive" && old.1 == 200 && old.2)
    let closing = try await proxy.talk { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
      return (try wire.response()["Connection"], try wire.isClosedByPeer())
    }
    #expect(closing.0?.lowercased() == "close" && closing.1)
  }

  @Test func `an idle connection is closed after keepalive_timeout`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, server: "keepalive_timeout 300ms;")
    try await proxy.talk { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
      _ = try wire.response()
      #expect(try wire.isClosedByPeer())
    }
  }

  @Test func `a head or a body that does not come in time is a 408 and the end of the connection`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, server: "client_header_timeout 300ms; client_body_timeout 300ms;")
    for half in ["GET / HTTP/1.1\r\nHo", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n123"] {
      let (answer, isClosed) = try await proxy.talk { wire in
        try wire.write(half)
        return (try wire.response(), try wire.isClosedByPeer())
      }
      #expect(answer.status == 408 && answer["Connection"] == "close" && isClosed, "\(half)")
    }
    #expect(upstream.connections == 0)
  }

  @Test func `a client that goes away ends its exchange at the upstream`() async throws {
    let scene = try Scene.ofTest()
    let ended = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.request()
      if try wire.isClosedByPeer() { ended.raise() }
    }
    let proxy = try await PlainProxy(scene, to: upstream.port)
    let client = try Wire.dial(port: proxy.port)
    try client.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    try await until("the request at the upstream") { upstream.receivedText.contains("GET /") }
    client.close()
    try await until("the upstream's connection to be closed") { ended.isRaised }
    try await until("the access log's 499") { scene.text("access.log").contains("\" 499 ") }
  }

  @Test func `proxy_ignore_client_abort lets the exchange end by itself`() async throws {
    let scene = try Scene.ofTest()
    let answered = Flag(), gone = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, number in
      _ = try wire.request()
      if number > 0 { return try wire.answer("late") }
      gone.wait()
      try wire.answer("late")
      answered.raise()
      while try !wire.readSome().isEmpty {}
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, location: "proxy_ignore_client_abort on;")
    let client = try Wire.dial(port: proxy.port)
    try client.write("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    try await until("the request at the upstream") { upstream.receivedText.contains("GET /") }
    client.close()
    // Another exchange has come and gone: the close was seen before this.
    _ = try await proxy.curl("/")
    gone.raise()
    try await until("the answer to be taken") { answered.isRaised }
    try await until("the access log's line") { scene.text("access.log").split(separator: "\n").count == 2 }
    #expect(!proxy.daemon.errorLog.contains("[error]"))
  }

  @Test func `plain HTTP on a TLS port is told so`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port) ssl; \(Cast.tls) return 200 ok; }"))
    let result = try await scene.curl(["http://127.0.0.1:\(port)/"])
    #expect(result.status == 400)
    #expect(result.text.contains("The plain HTTP request was sent to HTTPS port"))
  }

  @Test func `heads beyond the limits are refused by name`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, server: "large_client_header_buffers 4 2k;")
    let path = "/" + String(repeating: "a", count: 3000)
    #expect(try await proxy.curl(path).status == 414)
    #expect(try await proxy.curl("/", ["-H", "X-Long: \(String(repeating: "b", count: 3000))"]).status == 400)
    let many = (0..<8).flatMap { ["-H", "X-Many-\($0): \(String(repeating: "c", count: 1500))"] }
    #expect(try await proxy.curl("/", many).status == 400)
    #expect(upstream.connections == 0)
    #expect(try await proxy.curl("/" + String(repeating: "a", count: 1500)).status == 200)
  }
}
