import Glibc
import TestSupport
import Testing

/// Who must not get the password of an upstream, and by which ways it might have.
@Suite(.staged) struct `Passwords of upstreams under attack` {
  private static let asks = (status: "401 Who", fields: ["WWW-Authenticate: Basic realm=\"x\""])

  /// Asks at its first connection, and breaks off at all others.
  private func breakingOff(_ scene: Scene, _ challenge: String) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, number in
      guard try wire.request() != nil, number == 0 else { return }
      try wire.answer(status: "401 Who", fields: ["WWW-Authenticate: \(challenge)"], closing: true)
    }
  }

  @Test func `an answer is for the server that asked, whoever is tried after it`() async throws {
    let scene = try Scene.ofTest()
    let first = try breakingOff(scene, "Basic realm=\"x\"")
    let second = try ScriptedUpstream(scene) { wire, _ in try wire.serve { _ in try wire.answer("second") } }
    let proxy = try await PasswordProxy(
      scene,
      http: "upstream two { server 127.0.0.1:\(first.port); server 127.0.0.1:\(second.port) backup; }",
      "proxy_auth basic; proxy_auth_space http://127.0.0.1:\(first.port); location / { proxy_pass http://two; }")
    let result = try await proxy.ask("/x")
    #expect(result.status == 200 && result.text == "second")
    #expect(first.receivedText.contains("Authorization: Basic"))
    #expect(!second.receivedText.contains("uthorization"))
    proxy.expectNoSecrets()
  }

  @Test func `the next server's own challenge is answered, not the first one's`() async throws {
    let scene = try Scene.ofTest()
    let first = try breakingOff(scene, "Digest realm=\"x\", nonce=\"one\", qop=\"auth\"")
    let second = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        if request.head.contains("nonce=\"two\"") { return try wire.answer("second") }
        try wire.answer(
          status: "401 Who", fields: ["WWW-Authenticate: Digest realm=\"x\", nonce=\"two\", qop=\"auth\""])
      }
    }
    let proxy = try await PasswordProxy(
      scene,
      http: "upstream two { server 127.0.0.1:\(first.port); server 127.0.0.1:\(second.port) backup; }",
      "proxy_auth digest; location / { proxy_pass http://two; }")
    let result = try await proxy.ask("/x")
    #expect(result.status == 200 && result.text == "second")
    #expect(!second.receivedText.contains("nonce=\"one\""))
  }

  @Test func `a challenge that is answered again, without memory, has its count go on`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, number in
      guard let request = try wire.request() else { return }
      if request.head.contains("uthorization") {
        // The first answer is met by silence.
        if number > 1 { try wire.answer("in", closing: true) }
        return
      }
      try wire.answer(
        status: "401 Who", fields: ["WWW-Authenticate: Digest realm=\"x\", nonce=\"n\", qop=\"auth\""], closing: true)
    }
    let proxy = try await PasswordProxy(
      scene,
      http: "upstream two { server 127.0.0.1:\(upstream.port); server 127.0.0.1:\(upstream.port); }",
      "proxy_auth digest; proxy_auth_persistence none; location / { proxy_pass http://two; }")
    #expect(try await proxy.ask("/x").text == "in")
    let counts = upstream.receivedText.matches(of: /nc=([0-9a-f]{8})/).map { String($0.1) }
    #expect(counts == ["00000001", "00000002"])
  }

  @Test func `what is between the upstream and us comes by no trailer`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      guard try wire.request() != nil else { return }
      try wire.write(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nProxy-Authentication-Info: nextnonce=\"y\"\r\n\r\n"
      )
    }
    let proxy = try await PasswordProxy(
      scene, "proxy_auth digest; proxy_http_version 1.1; location / { proxy_pass http://127.0.0.1:\(upstream.port); }")
    let result = try await proxy.ask("/x", ["--raw", "-H", "TE: trailers"])
    #expect(result.status == 200 && result.text.hasSuffix("0\r\n\r\n") && !result.text.contains("nextnonce"))
  }

  @Test func `TRACE shows nobody what upstreams are told`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { try wire.answer($0.head) }
    }
    let proxy = try await PasswordProxy(
      scene, "location / { proxy_set_header X-Secret hidden; proxy_pass http://127.0.0.1:\(upstream.port); }")
    #expect(try await proxy.ask("/x").text.contains("hidden"))
    let traced = try await proxy.ask("/x", ["-X", "TRACE"])
    #expect(traced.status == 405 && !traced.text.contains("hidden"))
    #expect(upstream.requests("TRACE") == 0)
  }

  @Test func `two Authorization fields are refused: one would be judged here, the other behind`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in try wire.serve { _ in try wire.answer("x") } }
    let proxy = try await PasswordProxy(scene, "location / { proxy_pass http://127.0.0.1:\(upstream.port); }")
    let doubled = try await proxy.ask("/x", ["-H", "Authorization: Basic YTpi", "-H", "authorization: Basic YzpkCg=="])
    #expect(doubled.status == 400 && upstream.connections == 0)
  }

  @Test func `a probe is answered by no tunnel`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      guard let request = try wire.request() else { return }
      guard request.method == "HEAD" else { return try wire.answer("body \(request.body.count)", closing: true) }
      try wire.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
      _ = try wire.readToEnd()
    }
    let proxy = try await PasswordProxy(
      scene,
      """
      proxy_auth basic; proxy_request_buffering off; client_body_buffer_size 1k; client_max_body_size 0;
      location / {
        proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
        proxy_pass http://127.0.0.1:\(upstream.port);
      }
      """)
    let result = try await proxy.ask(
      "/x", ["-H", "Expect:", "-H", "Upgrade: x", "-H", "Connection: Upgrade"], input: Pattern.bytes(100_000))
    #expect(result.status == 502)
    try await proxy.daemon.logged("upstream switched protocols without being asked")
    #expect(upstream.received.allSatisfy { $0.count < 2000 }, "no body went into the tunnel")
  }

  @Test(arguments: [("NTLM TlRMTVNTUAABAAAA", 2), ("negotiate YII=", 2), ("Basic YTpi", 1)])
  func `a connection that a client logs in on is nobody else's`(credentials: String, connections: Int) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, number in try wire.serve { _ in try wire.answer("\(number)") } }
    let proxy = try await PasswordProxy(
      scene, workers: 1, http: "upstream group { server 127.0.0.1:\(upstream.port); keepalive 4; }",
      """
      location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://group; }
      """)
    #expect(try await proxy.ask("/x", ["-H", "Authorization: \(credentials)"]).text == "0")
    #expect(try await proxy.ask("/x", as: "bob").text == "\(connections - 1)")
    #expect(upstream.connections == connections)
  }

  @Test func `a space names the host that a variable named`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        if request.head.contains("Authorization: Basic") { return try wire.answer("in") }
        try wire.answer(status: Self.asks.status, fields: Self.asks.fields)
      }
    }
    let proxy = try await PasswordProxy(
      scene,
      """
      proxy_auth basic; set $host_named localhost;
      location / { proxy_auth_space http://localhost:\(upstream.port); proxy_pass http://$host_named:\(upstream.port); }
      location /other/ { proxy_auth_space http://other:\(upstream.port); proxy_pass http://$host_named:\(upstream.port); }
      """)
    #expect(try await proxy.ask("/x").text == "in")
    #expect(try await proxy.ask("/other/x").status == 502)
  }

  @Test func `a folder that others' files are in is not taken for the state`() async throws {
    let scene = try Scene.ofTest()
    try scene.makeFolder("shared")
    try scene.write("shared/letter", text: "of somebody")
    try await scene.succeed("chmod", "1777", scene.path("shared"))
    try scene.makeFolder("empty")
    try await scene.succeed("chmod", "755", scene.path("empty"))
    let taken = "proxy_auth basic; proxy_auth_persistence permanent; proxy_auth_state"
    await #expect(throws: Sallyport.DidNotStart.self) {
      _ = try await PasswordProxy(scene, "location / { \(taken) shared; proxy_pass http://127.0.0.1:9; }")
    }
    #expect(scene.text("sallyport.stderr").contains("holds files that are not its own"))
    #expect(try await scene.succeed("stat", "-c", "%a", scene.path("shared")) == "1777")
    _ = try await PasswordProxy(scene, "location / { \(taken) empty; proxy_pass http://127.0.0.1:9; }")
    #expect(try await scene.succeed("stat", "-c", "%a", scene.path("empty")) == "700")
  }
}
