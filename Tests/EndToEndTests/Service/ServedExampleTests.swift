import Crypto
import Glibc
import TestSupport
import Testing

/// The files of config/ that people start from, beside a real nginx with the same file.
@Suite(.staged) struct `Examples, served` {
  private static func cast(_ scene: Scene) throws -> Cast {
    try Cast(
      scene,
      serverNames: [
        "localhost", "app.example.com", "api.example.com", "erp.example.com", "grpc.example.com", "service.internal",
      ])
  }

  @Test func `websocket: tunnels and ordinary requests`() async throws {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    let upstream = try ScriptedUpstream.webSocketEcho(scene)
    let example = try await ServedExample(scene, "websocket", upstreams: [3000: upstream.port])
    for server in ServedExample.Server.allCases {
      let client = try OpenSSLClient(
        scene, port: example.port(server), identity: cast.alice, ["-servername", "app.example.com"])
      let echoed = try await offPool {
        #expect(try client.wire.openWebSocket("/live", host: "app.example.com").status == 101)
        try client.wire.write(WebSocket.frame(1, Array("hello".utf8), mask: [1, 2, 3, 4]))
        return try client.wire.webSocketFrame()?.payload
      }
      #expect(echoed == Array("hello".utf8), "\(server)")
    }
    try await example.expectSame([
      (400, "https://app.example.com/", cast.alice.curl), (400, "https://app.example.com/", []),
      (400, "https://app.example.com/poll/x", cast.alice.curl),
    ])
  }

  @Test func `blue-green: a certificate has one version, and a tester chooses`() async throws {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    let blue = try ScriptedUpstream.application(scene, "blue"), green = try ScriptedUpstream.application(scene, "green")
    let example = try await ServedExample(scene, "blue-green", upstreams: [3001: blue.port, 3002: green.port])
    var clients = [cast.alice.curl]
    for index in 0..<12 {
      clients.append(try scene.identity("c\(index)", cast.authority.client(commonName: "c\(index)")).curl)
    }
    try await example.expectSame(
      clients.map { (200, "https://app.example.com/a?b=c", $0) }
        + ["green", "blue", "red"].map {
          (200, "https://app.example.com/", cast.alice.curl + ["-H", "X-Version: \($0)"])
        })
    #expect(
      try await example.ask(.sallyport, "https://app.example.com/", cast.alice.curl + ["-H", "X-Version: green"])
        .contains("X-Served-By: green"))
  }

  @Test func `rate-limited-api: the limit counts by certificate`() async throws {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    let app = try ScriptedUpstream.application(scene)
    let example = try await ServedExample(scene, "rate-limited-api", upstreams: [3000: app.port])
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let url = "https://api.example.com/v1/things"
    try await example.expectSame([
      (200, url, bob.curl), (200, url, bob.curl + ["-d", "x=1"]), (404, "https://api.example.com/", bob.curl),
      (200, "https://api.example.com/v1/reports/1", bob.curl), (400, url, []),
    ])
    // One connection asks faster than ten times a second, whatever the machine does: 40 at once, of which 21 pass.
    for server in ServedExample.Server.allCases {
      let result = try await scene.curl(
        ["--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(example.port(server))", "-Z"]
          + cast.alice.curl + ["https://api.example.com/v1/[1-60]"])
      let lines = result.heads.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("HTTP/1.1") }
      #expect(lines.contains { $0.contains("429") } && lines.contains { $0.contains("200") }, "\(server) \(lines)")
    }
    let refused = try await scene.curl(
      ["--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(example.port(.sallyport))"] + bob.curl + [url])
    #expect(refused.status == 200, "another certificate has a limit of its own")
  }

  @Test func `multi-tenant: each customer's CA counts for its own names only`() async throws {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    var authorities: [String: TestAuthority] = [:]
    let names = [
      "red": ["red.example.com"], "blue": ["blue.example.com", "*.blue.example.com"],
      "shared": ["*.shared.example.com"],
    ]
    for (name, hosts) in names {
      _ = try scene.identity(name, cast.authority.server(names: hosts))
      let authority = try TestAuthority(name)
      try scene.anchors("\(name)-ca", authority)
      authorities[name] = authority
    }
    let red = try scene.identity("red-client", #require(authorities["red"]).client(commonName: "red"))
    let shared = try scene.identity("shared-client", #require(authorities["shared"]).client(commonName: "s"))
    let apps = try (0..<3).map { try ScriptedUpstream.application(scene, "app\($0)") }
    let example = try await ServedExample(
      scene, "multi-tenant", upstreams: [3001: apps[0].port, 3002: apps[1].port, 3003: apps[2].port])
    try await example.expectSame([
      (200, "https://red.example.com/x", red.curl), (400, "https://blue.example.com/x", red.curl),
      (400, "https://www.blue.example.com/x", red.curl), (400, "https://red.example.com/x", cast.alice.curl),
      (400, "https://red.example.com/x", []), (200, "https://acme.shared.example.com/x?y=%20", shared.curl),
      (400, "https://acme.shared.example.com/x", red.curl),
    ])
    // A name of no customer: no certificate, no page.
    for server in ServedExample.Server.allCases {
      #expect(try await example.ask(server, "https://other.example.com/", red.curl).hasPrefix("35 "), "\(server)")
    }
  }

  @Test func `behind-load-balancer: the PROXY header says who the client is`() async throws {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    let app = try ScriptedUpstream.application(scene)
    let example = try await ServedExample(scene, "behind-load-balancer", upstreams: [3000: app.port])
    let proxied = cast.alice.curl + ["--haproxy-protocol"]
    try await example.expectSame([
      (200, "https://app.example.com/x", proxied), (403, "https://app.example.com/admin/", proxied),
      (400, "https://app.example.com/x", ["--haproxy-protocol"]),
    ])
    try await example.expectSame(
      [(200, "http://127.0.0.1/health", []), (404, "http://127.0.0.1/", [])], written: 8080)
    // HAProxy, as the load balancer, tells a client of the office.
    for server in ServedExample.Server.allCases {
      let port = try scene.port()
      try await HAProxy.start(
        scene, port: port, to: example.port(server), mode: "tcp", server: "send-proxy-v2 source 127.0.0.1")
      let result = try await scene.curl(
        ["--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(port)"] + cast.alice.curl + [
          "https://app.example.com/x"
        ])
      #expect(result.text.contains("x-real-ip: 127.0.0.1"), "\(server) \(result.text)")
    }
  }

  @Test func `legacy-rewrite: an old application under a new name`() async throws {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    let app = try ScriptedUpstream.application(
      scene,
      fields: [
        "Set-Cookie: SESSION=1; Path=/erp/", "X-Powered-By: Old/1", "Location: http://erp.internal/erp/next?a=b",
      ])
    let example = try await ServedExample(scene, "legacy-rewrite", upstreams: [8080: app.port])
    try await example.expectSame(
      [
        (200, "/"), (200, "/a/b?c=d"), (200, "/customers/17/edit"), (200, "/customers/17/edit?x=y"),
        (200, "/a.gif?v=1"),
        (301, "/index.asp"), (301, "/cgi-bin/report.pl?q=1"), (301, "/old/a%20b"), (404, "/setup/install"),
        (404, "/setup/a.gif"), (200, "/customers/17/edit/more"),
      ].map { ($0.0, "https://erp.example.com\($0.1)", cast.alice.curl) })
  }

  @Test func `grpc: calls reach the service with the caller's name`() async throws {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    try scene.anchors("service-ca", cast.authority)
    _ = try scene.identity("client", cast.authority.client(commonName: "proxy"))
    let service = try await scene.grpcServer()
    let example = try await ServedExample(scene, "grpc", upstreams: [50051: service])
    var answers: [[String]] = []
    for server in ServedExample.Server.allCases {
      answers.append(try await scene.grpcClient(example.port(server), "calls"))
      #expect(try await scene.grpcClient(example.port(server), "many") == ["True"], "\(server)")
    }
    #expect(answers[0] == answers[1])
    #expect(answers[0].contains { $0.contains("('x-client-dn', 'CN=alice,") }, "\(answers[0])")
  }

  @Test func `oauth2-proxy: who hasn't signed in is led to the sign-in, and the application learns who has`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    let app = try ScriptedUpstream.application(scene)
    let signIn = try ScriptedUpstream(scene, records: false) { wire, _ in
      try wire.serve { request in
        switch (request.target, request["Cookie"] ?? "") {
        case ("/oauth2/auth", "_oauth2_proxy=good"):
          try wire.answer(
            status: "202 Accepted",
            fields: [
              "X-Auth-Request-User: alice", "X-Auth-Request-Email: alice@example.com",
              "Set-Cookie: _oauth2_proxy=renewed",
            ])
        case ("/oauth2/auth", "_oauth2_proxy=broken"): try wire.answer(status: "500 Internal Server Error")
        case ("/oauth2/auth", _): try wire.answer("no", status: "401 Unauthorized", fields: ["X-Secret: 1"])
        default: try wire.answer("sign in at \(request.target)\n", fields: ["Content-Type: text/html"])
        }
      }
    }
    let example = try await ServedExample(scene, "oauth2-proxy", upstreams: [3000: app.port, 4180: signIn.port])
    let url = "https://app.example.com/x?y=z"
    func with(_ cookie: String) -> [String] { cast.alice.curl + ["-b", "_oauth2_proxy=\(cookie)"] }
    try await example.expectSame([
      (302, url, cast.alice.curl), (302, url, with("bad")), (200, url, with("good")), (500, url, with("broken")),
      (200, url, with("good") + ["-d", "a body"]), (302, url, cast.alice.curl + ["-d", "a body"]),
      (200, url, with("good") + ["-H", "X-User: mallory", "-H", "X-Email: m"]),
      (404, "https://app.example.com/oauth2/auth", with("good")),
      (200, "https://app.example.com/oauth2/sign_in?rd=/", cast.alice.curl), (400, url, ["-b", "_oauth2_proxy=good"]),
    ])
    let seen = try await example.ask(.sallyport, url, with("good"))
    #expect(seen.contains("x-user: alice") && seen.contains("x-email: alice@example.com"), "\(seen)")
    #expect(seen.contains("Set-Cookie: _oauth2_proxy=renewed"))
  }

  @Test func `maintenance: a file shows the page, to all but the operators`() async throws {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    try scene.makeFolder("pages")
    try scene.write("pages/maintenance.html", text: "<h1>Back soon</h1>\n")
    let app = try ScriptedUpstream.application(scene)
    let example = try await ServedExample(scene, "maintenance", upstreams: [3000: app.port])
    let url = "https://app.example.com/x", operators = cast.alice.curl + ["--interface", "127.0.0.2"]
    try await example.expectSame([
      (200, url, cast.alice.curl), (404, "https://app.example.com/maintenance.html", cast.alice.curl),
    ])
    try scene.write("pages/maintenance.on", text: "")
    try await example.expectSame([
      (503, url, cast.alice.curl), (503, url, cast.alice.curl + ["-d", "x"]), (503, url, cast.alice.curl + ["-I"]),
      (200, url, operators),
    ])
    let page = try await example.ask(.sallyport, url, cast.alice.curl)
    #expect(page.contains("Back soon") && page.contains("Retry-After: 300"), "\(page)")
    unlink(scene.path("pages/maintenance.on"))
    try await example.expectSame([(200, url, cast.alice.curl)])
  }

  @Test func `maintenance: the page stands in for an application that is away`() async throws {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    try scene.makeFolder("pages")
    try scene.write("pages/maintenance.html", text: "<h1>Back soon</h1>\n")
    let example = try await ServedExample(scene, "maintenance", upstreams: [3000: scene.port()])
    try await example.expectSame([
      (502, "https://app.example.com/x", cast.alice.curl),
      (502, "https://app.example.com/x", cast.alice.curl + ["-d", "x"]),
    ])
  }

  @Test func `static-site: the application's pages, its files, its API, and challenges on port 80`() async throws {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    for folder in ["site", "site/assets", "site/docs", "challenges", "challenges/.well-known/acme-challenge"] {
      try scene.makeFolder(folder)
    }
    try scene.write("site/index.html", text: "<html>the application</html>\n")
    try scene.write("site/docs/index.html", text: "<html>docs</html>\n")
    try scene.write("site/assets/app.js", text: String(repeating: "let a = 1;\n", count: 400))
    try scene.write("site/assets/small.css", text: "a{}")
    try scene.write("site/assets/data.bin", [1, 2, 3])
    try scene.write("challenges/.well-known/acme-challenge/token", text: "token.thumbprint")
    let app = try ScriptedUpstream.application(scene)
    let example = try await ServedExample(scene, "static-site", upstreams: [3000: app.port])
    func all(_ rows: [(Int, String, [String])]) -> [(status: Int, url: String, options: [String])] {
      rows.map { ($0.0, "https://app.example.com\($0.1)", cast.alice.curl + $0.2) }
    }
    try await example.expectSame(
      all([
        (200, "/", []), (200, "/customers/17", []), (200, "/docs/", []), (301, "/docs", []),
        (200, "/docs/index.html", []),
        (200, "/assets/app.js", []), (200, "/assets/app.js", ["--compressed"]),
        (200, "/assets/small.css", ["--compressed"]),
        (200, "/assets/data.bin", []), (404, "/assets/none.js", []), (404, "/assets/", []), (200, "/", ["-I"]),
        (206, "/assets/app.js", ["-r", "10-19"]), (405, "/", ["-d", "x"]),
        (200, "/assets/../index.html", []), (200, "/api/things?x=y", []), (200, "/api/", ["-d", "body"]),
        (400, "/../../etc/passwd", []),
      ]))
    try await example.expectSame(
      [
        (200, "http://app.example.com/.well-known/acme-challenge/token", []),
        (404, "http://app.example.com/.well-known/acme-challenge/none", []),
        (400, "http://app.example.com/.well-known/acme-challenge/../../../server.key", []),
        (301, "http://app.example.com/x?y", []),
      ], written: 80)
  }

  @Test func `load-balancing: both choose the same servers`() async throws {
    let scene = try Scene.ofTest(), cast = try Self.cast(scene)
    let apps = try (0..<3).map { try ScriptedUpstream.application(scene, "app\($0)") }
    let example = try await ServedExample(
      scene, "load-balancing", upstreams: [3001: apps[0].port, 3002: apps[1].port, 3003: apps[2].port])
    var clients = [cast.alice.curl]
    for index in 0..<8 {
      clients.append(try scene.identity("c\(index)", cast.authority.client(commonName: "c\(index)")).curl)
    }
    try await example.expectSame(
      clients.flatMap { [(200, "https://app.example.com/x", $0), (200, "https://app.example.com/cached/x", $0)] })
  }
}
