import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `The choice of a server block` {
  /// a.test takes clients of CA A, b.test of CA B, c.test none; a2.test is like a.test.
  private func start(_ scene: Scene, _ cast: Cast, extra: String = "") async throws -> (
    port: UInt16, bob: IdentityFiles
  ) {
    let other = try TestAuthority("Other")
    try scene.anchors("other", other)
    let port = try scene.port()
    let servers = [
      ("c.test", ""), ("a.test", "ssl_client_certificate ca.pem; ssl_verify_client on;"),
      ("a2.test", "ssl_client_certificate ca.pem; ssl_verify_client on;"),
      ("b.test", "ssl_client_certificate other.pem; ssl_verify_client on;"),
      ("deep.test", "ssl_client_certificate ca.pem; ssl_verify_client on; ssl_verify_depth 3;"),
      ("maybe.test", "ssl_client_certificate ca.pem; ssl_verify_client optional;"),
    ].map { name, tls in
      """
      server {
        listen 127.0.0.1:\(port) ssl; server_name \(name);
        ssl_certificate server.pem; ssl_certificate_key server.key; \(tls)
        location / { return 200 "$server_name $ssl_server_name $ssl_client_verify $host\\n"; }
      }
      """
    }
    _ = try await Sallyport.start(scene, configuration(servers.joined(separator: "\n") + extra))
    return (port, try scene.identity("bob", other.client(commonName: "bob")))
  }

  private func names() -> [String] {
    ["localhost", "a.test", "a2.test", "b.test", "c.test", "deep.test", "maybe.test"]
  }

  @Test func `SNI chooses the CA that a client is judged by`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene, serverNames: names())
    let (port, bob) = try await start(scene, cast)
    for (name, identity, status) in [
      ("a.test", cast.alice, 200), ("a.test", bob, 400), ("b.test", bob, 200), ("b.test", cast.alice, 400),
      ("c.test", bob, 200),
    ] {
      let result = try await scene.curl(cast.to(port) + identity.curl + ["https://\(name)/"])
      #expect(result.status == status, "\(name) with \(identity.certificate)")
      if status == 200 { #expect(result.text.hasPrefix("\(name) \(name) ")) }
    }
  }

  @Test(arguments: ["A.TEST", "a.Test"]) func `mixed-case SNI chooses as lower-case does`(name: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene, serverNames: names())
    let (port, _) = try await start(scene, cast)
    let answer = try await scene.ask(tls: port, name: name, identity: cast.alice) { try $0.get("/", host: name) }
    #expect(answer.status == 200)
    #expect(answer.text.hasPrefix("a.test "))
    #expect(answer.text.contains(" a.test\n"), "$host is in lower case")
    let refused = try await scene.ask(tls: port, name: name) { try $0.get("/", host: name) }
    #expect(refused.status == 400)
  }

  @Test func `CVE-2026-48491, CVE-2026-53622: no spelling of a name leads past the policy of its server block`()
    async throws
  {
    let names = ["localhost", "open.test", "*.strict.test", "free.strict.test"]
    let scene = try Scene.ofTest(), cast = try Cast(scene, serverNames: names)
    let port = try scene.port()
    let material = "ssl_certificate server.pem; ssl_certificate_key server.key;"
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name open.test; \(material)
        location / { return 200 "open $host\\n"; } }
      server { listen 127.0.0.1:\(port) ssl; server_name *.strict.test; \(material)
        ssl_client_certificate ca.pem; ssl_verify_client on; location / { return 200 "strict $host\\n"; } }
      server { listen 127.0.0.1:\(port) ssl; server_name free.strict.test; \(material)
        location / { return 200 "free $host\\n"; } }
      """)
    // Who has no certificate gets nothing of the strict server, whatever SNI and Host are.
    for (sni, host, status) in [
      ("a.strict.test", "a.strict.test", 400), ("A.STRICT.TEST", "a.strict.test", 400),
      ("a.Strict.Test", "open.test", 400), ("a.b.strict.test", "a.b.strict.test", 400),
      ("open.test", "a.strict.test", 421), ("open.test", "A.STRICT.TEST", 421), ("open.test", "a.strict.test.", 421),
      ("OPEN.test", "a.strict.test:443", 421), ("open.test", "a.b.strict.test", 421),
      ("free.strict.test", "a.strict.test", 421), ("FREE.strict.test", "b.STRICT.test", 421),
      ("free.strict.test", "FREE.strict.test", 200), ("open.test", "free.strict.test", 200),
      ("open.test", "OPEN.test.", 200),
    ] {
      let answer = try await scene.ask(tls: port, name: sni) { try $0.get("/", host: host) }
      #expect(answer.status == status && !answer.text.contains("strict a"), "\(sni) \(host): \(answer.text)")
    }
    // The certificate of a client goes with the server of its handshake, and with no other.
    let known = try await scene.ask(tls: port, name: "A.strict.TEST", identity: cast.alice) {
      try $0.get("/", host: "b.STRICT.test")
    }
    #expect(known.status == 200 && known.text == "strict b.strict.test\n")
  }

  @Test func `the pages of a refusal are those of the block that judged the client, as in nginx`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene, serverNames: ["localhost", "open.test", "strict.test"])
    let port = try scene.port()
    func server(_ name: String, _ tls: String) -> String {
      """
      server { listen 127.0.0.1:\(port) ssl; server_name \(name).test;
        ssl_certificate server.pem; ssl_certificate_key server.key; \(tls) error_page 421 495 496 /page;
        location / { return 200 "in \(name)\\n"; }
        location = /page { add_header X-Page \(name) always; return 200 "page of \(name), $http_x_word\\n"; } }
      """
    }
    _ = try await Sallyport.start(
      scene,
      configuration(server("open", "") + server("strict", "ssl_client_certificate ca.pem; ssl_verify_client on;")))
    let stranger = try scene.identity("eve", TestAuthority("Other").client(commonName: "eve"))
    let cases: [(sni: String, host: String, who: IdentityFiles?, status: Int, text: String)] = [
      ("open.test", "strict.test", nil, 421, "page of open, "),
      ("open.test", "strict.test", cast.alice, 421, "page of open, "),
      ("strict.test", "open.test", cast.alice, 421, "page of strict, "),
      ("strict.test", "open.test", nil, 400, "page of strict, "),
      ("strict.test", "strict.test", nil, 400, "page of strict, "),
      ("strict.test", "open.test", stranger, 400, "page of strict, "),
      ("open.test", "open.test", nil, 200, "in open"), ("strict.test", "strict.test", cast.alice, 200, "in strict"),
    ]
    for (sni, host, who, status, text) in cases {
      let answer = try await scene.ask(tls: port, name: sni, identity: who) { try $0.get("/", host: host) }
      #expect(answer.status == status && answer.text == text + "\n", "\(sni) \(host): \(answer.status) \(answer.text)")
    }
  }

  @Test func `CVE-2026-85596, CVE-2026-85597: no shared or negated name has the default policy`() async throws {
    let names = ["localhost", "open.test", "a.test", "shared.test", "b.test", "x.inner.test", "public.inner.test"]
    let scene = try Scene.ofTest(), port = try scene.port()
    _ = try Cast(scene, serverNames: names)
    func server(_ names: String, _ tls: String) -> String {
      """
      server { listen 127.0.0.1:\(port) ssl; server_name \(names); ssl_certificate server.pem;
        ssl_certificate_key server.key; \(tls) location / { return 200 "in\\n"; } }
      """
    }
    let strict = "ssl_client_certificate ca.pem; ssl_verify_client on;"
    // Twice the same policy, and two different ones; the default server asks for nothing.
    _ = try await Sallyport.start(
      scene,
      configuration(
        server("open.test", "") + server("a.test shared.test", strict) + server("a.test", strict)
          + server("shared.test b.test", "") + server(#""~^(?!public\.)[a-z]+\.inner\.test$""#, strict)))
    for (sni, host, status) in [
      ("a.test", "a.test", 400), ("shared.test", "shared.test", 400), ("b.test", "b.test", 200),
      ("b.test", "shared.test", 421),
      ("open.test", "a.test", 421), ("open.test", "shared.test", 421), ("b.test", "a.test", 421),
      ("x.inner.test", "x.inner.test", 400), ("X.Inner.Test", "open.test", 400), ("open.test", "x.inner.test", 421),
      ("open.test", "X.INNER.test.", 421), ("public.inner.test", "x.inner.test", 421),
      ("public.inner.test", "public.inner.test", 200),
    ] {
      let answer = try await scene.ask(tls: port, name: sni) { try $0.get("/", host: host) }
      #expect(answer.status == status, "\(sni) \(host): \(answer.status)")
    }
  }

  @Test func `without SNI the default server's policy counts`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene, serverNames: names())
    let (port, _) = try await start(scene, cast)
    let result = try await scene.curl(["-k", "https://127.0.0.1:\(port)/"])
    #expect(result.status == 200)
    #expect(result.text.hasPrefix("c.test "))
  }

  @Test(arguments: [1, 7, 40, 1200]) func `CVE-2026-32305: a ClientHello in many records and segments is understood`(
    size: Int
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene, serverNames: names())
    let (port, _) = try await start(scene, cast)
    let relay = try ScriptedUpstream.fragmentingRelay(scene, to: port, size: size)
    let result = try await scene.curl(cast.to(relay.port) + cast.alice.curl + ["https://a.test/"])
    #expect(result.status == 200)
    #expect(result.text.hasPrefix("a.test a.test SUCCESS"))
    // The same hello without a certificate must not slip into the default server, which asks for none.
    let bare = try await scene.curl(cast.to(relay.port) + ["https://a.test/"])
    #expect(bare.status == 400)
  }

  @Test(arguments: [
    ("c.test", "a.test"), ("a.test", "b.test"), ("a.test", "deep.test"), ("maybe.test", "a.test"),
    ("c.test", "maybe.test"),
  ])
  func `a Host with another client policy than the handshake's is misdirected`(sni: String, host: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene, serverNames: names())
    let (port, _) = try await start(scene, cast)
    let answer = try await scene.ask(tls: port, name: sni, identity: cast.alice) { try $0.get("/", host: host) }
    #expect(answer.status == 421)
  }

  @Test(.ofHTTP1) func `CVE-2026-116375: no other name after a HelloRetryRequest`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene, serverNames: names())
    let (port, _) = try await start(scene, cast)
    let x25519: UInt16 = 29
    for (first, second, isTaken) in [
      ("c.test", "a.test", false), ("maybe.test", "a.test", false), ("a.test", "c.test", false),
      ("c.test", nil, false), (nil, "a.test", false), ("c.test", "C.TEST", true), ("a.test", "a.test", true),
    ] {
      let answer = try await scene.talk(port) { wire -> [UInt8] in
        /// The next record that is no change_cipher_spec.
        func record() throws -> [UInt8] {
          while true {
            let header = try wire.read(exactly: 5)
            let body = try wire.read(exactly: Int(header[3]) << 8 | Int(header[4]))
            if header[0] != 20 { return [header[0]] + body }
          }
        }
        try wire.write(ClientHello.record(serverName: first, groups: [x25519], shares: []))
        // The random of a HelloRetryRequest (RFC 8446 §4.1.3).
        #expect(try record().dropFirst(7).starts(with: [0xCF, 0x21, 0xAD, 0x74]))
        let base: [UInt8] = [9] + [UInt8](repeating: 0, count: 31)
        try wire.write(ClientHello.record(serverName: second, groups: [x25519], shares: [(x25519, base)]))
        return try record()
      }
      let illegalParameter: [UInt8] = [21, 2, 47]
      let serverHello: [UInt8] = [22, 2]
      #expect(
        answer.starts(with: isTaken ? serverHello : illegalParameter), "\(first ?? "-") then \(second ?? "-")")
    }
  }

  @Test(.ofHTTP1) func `an absolute target of another policy is misdirected, and with another Host refused`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene, serverNames: names())
    let (port, _) = try await start(scene, cast)
    for (host, status) in [("a.test", 421), ("c.test", 400)] {
      let answer = try await scene.talk(tls: port, name: "c.test") { wire in
        try wire.write("GET https://a.test/ HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n")
        return try wire.response()
      }
      #expect(answer.status == status)
    }
  }

  @Test func `a Host with the same client policy is served`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene, serverNames: names())
    let (port, _) = try await start(scene, cast)
    let answer = try await scene.ask(tls: port, name: "a.test", identity: cast.alice) {
      try $0.get("/", host: "a2.test")
    }
    #expect(answer.status == 200)
    #expect(answer.text.hasPrefix("a2.test a.test SUCCESS"))
  }

  @Test func `ssl_reject_handshake refuses unknown names and lets known ones in`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl default_server; ssl_reject_handshake on; }
      server { listen 127.0.0.1:\(port) ssl; server_name a.test; \(Cast.tls) location / { return 200 "in\\n"; } }
      """)
    let unknown = try await scene.run(
      "openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "b.test"], input: [])
    #expect(unknown.errors.contains("unrecognized name"))
    let known = try await scene.curl(cast.to(port) + cast.alice.curl + ["https://a.test/"])
    #expect(known.text == "in\n")
  }

  @Test func `an upstream that demands a name is told from one that knows no host of the name`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (port, front) = (try scene.port(), try scene.port())
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl default_server; ssl_reject_handshake on; }
      server { listen 127.0.0.1:\(port) ssl; server_name a.test; \(Cast.tls) location / { return 200 "in\\n"; } }
      server { listen 127.0.0.1:\(front); proxy_ssl_verify off;
        location /none { proxy_pass https://127.0.0.1:\(port); }
        location /wrong { proxy_pass https://127.0.0.1:\(port); proxy_ssl_server_name on; proxy_ssl_name b.test; } }
      """)
    #expect(try await scene.curl(["http://127.0.0.1:\(front)/none"]).status == 502)
    try await daemon.logged("unrecognized name", ", no name was sent (proxy_ssl_server_name off)")
    #expect(try await scene.curl(["http://127.0.0.1:\(front)/wrong"]).status == 502)
    try await daemon.logged("unrecognized name", ", the name sent was \"b.test\"")
    _ = cast
  }

  @Test func `server names are chosen as nginx does: exact, then wildcards, then expressions`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let servers = ["one.test", "*.test", ".example.org", "mail.*", "~^(?<who>[a-z]+)\\d+\\.net$"].enumerated()
      .map { index, name in
        "server { listen 127.0.0.1:\(port); server_name \(name); return 200 \"\(index) \(index == 4 ? "$who" : "")\"; }"
      }
    _ = try await Sallyport.start(scene, configuration(servers.joined(separator: "\n")))
    for (host, expected) in [
      ("one.test", "0 "), ("two.test", "1 "), ("a.b.test", "1 "), ("example.org", "2 "), ("x.example.org", "2 "),
      ("mail.net", "3 "), ("bob42.net", "4 bob"), ("nowhere", "0 "), ("ONE.TEST", "0 "), ("one.test.", "0 "),
      ("two.test:8080", "1 "),
    ] {
      let result = try await scene.curl(["-H", "Host: \(host)", "http://127.0.0.1:\(port)/"])
      #expect(result.text == expected, "\(host)")
    }
  }
}
