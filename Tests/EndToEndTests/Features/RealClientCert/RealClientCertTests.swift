import Bytes
import Crypto
import Foundation
import Glibc
import Review
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `Clients behind a front that ends TLS` {
  private func ask(
    _ front: FrontedProxy, _ cast: Cast, _ words: [String], path: String = "/head", identity: IdentityFiles? = nil
  ) async throws -> CurlResult {
    try await front.scene.curl(
      cast.to(front.port) + (identity?.curl ?? []) + words + ["https://localhost\(path)"])
  }

  @Test(arguments: FrontField.allCases) func `each format: the client of the field is the client everywhere`(
    field: FrontField
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(scene, field: field)
    let alice = cast.alice.certified
    // Twice: the second one's chain is known.
    for _ in 0..<2 {
      let result = try await ask(front, cast, field.curl(alice))
      #expect(result.status == 200 && result["x-verify"] == "SUCCESS" && result["x-cn"] == "alice")
      #expect(result["x-verdict"] == "admitted" && result["x-raw"] == nil)
      #expect(result.text.contains("Client-Cert: :\(Base64.encode(alice.certificate.der)):"))
      #expect(result.text.contains("X-DN: CN=alice"))
      #expect(!result.text.contains("CERTIFICATE") && !result.text.contains("X-Front"))
      #expect(field == .rfc9440 || !result.text.lowercased().contains(field.name.lowercased()))
    }
    let bob = try cast.authority.client(commonName: "bob")
    #expect(try await ask(front, cast, field.curl(bob), path: "/alice").status == 403)
    #expect(try await ask(front, cast, field.curl(alice), path: "/alice").status == 200)
    try await front.daemon.logged("access forbidden by rule", "CN=bob")
    // An intermediate comes with the leaf, except where the format has no room for it.
    let carol = try cast.authority.client(.viaIntermediate, commonName: "carol")
    #expect(try await ask(front, cast, field.curl(carol)).status == (field == .der ? 400 : 200))
  }

  @Test func `without the field, and with an empty one, it is a client without a certificate`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(scene, verify: "optional")
    let none = try await ask(front, cast, [])
    #expect(none.status == 200 && none["x-verify"] == "NONE" && none["x-cn"] == nil)
    #expect(try await ask(front, cast, ["-H", "Client-Cert;"])["x-verify"] == "NONE")
    #expect(try await ask(front, cast, [], path: "/alice").status == 403)
    // The front's own certificate is not its client's.
    let own = try await ask(front, cast, [], identity: cast.alice)
    #expect(own["x-verify"] == "NONE" && own.text.contains("X-Front: CN=alice"))
    #expect(try await ask(front, cast, [], path: "/alice", identity: cast.alice).status == 403)
  }

  @Test func `where certificates are required, a request without the field is refused`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(scene)
    for identity in [nil, cast.alice] {
      let refused = try await ask(front, cast, [], identity: identity)
      #expect(refused.status == 400 && refused.text.contains("No required SSL certificate was sent"))
    }
  }

  @Test(arguments: ["127.0.0.1", "cn=alice"])
  func `a head that can't be read has no client, so its error page takes no front for one`(from: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(
      scene, verify: "optional", fronts: [from], server: "error_page 400 = /page;",
      locations: """
        location /page { ssl_client_allow cn=alice; return 200 page; }
        location /alice { ssl_client_allow cn=alice; return 200 inside; }
        """)
    let relaying = FrontField.rfc9440.curl(cast.alice.certified)
    #expect(try await ask(front, cast, relaying, path: "/alice", identity: cast.alice).text == "inside")
    let refused = try await ask(front, cast, relaying + ["--http1.1", "-H", "Content-Length: x"], identity: cast.alice)
    #expect(refused.status == 403, "\(refused.exit) \(refused.errors) \(refused.text)")
  }

  @Test func `what no handshake would take is refused: 400, and never a weaker check`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let revoked = try cast.authority.client(commonName: "revoked")
    var list = RevocationListBuilder(revoking: [revoked.certificate], number: 1)
    list.nextUpdate = Int64(Date().timeIntervalSince1970) + 86_400
    let middle = RevocationListBuilder(revoking: [], number: 1)
    try scene.write(
      "crl.pem", text: list.pem(signedBy: cast.authority.root) + middle.pem(signedBy: cast.authority.intermediate))
    let front = try await FrontedProxy(scene, verify: "optional", server: "ssl_crl crl.pem;")
    let authority = cast.authority, other = try TestAuthority("Other")
    #expect(try await ask(front, cast, FrontField.rfc9440.curl(authority.client())).status == 200)
    for (shown, reason) in [
      (revoked, "certificate revoked"), (try authority.client(.expired), "certificate has expired"),
      (try authority.client(.notYetValid), "certificate is not yet valid"),
      (try authority.client(.selfSigned), "self-signed certificate"),
      (try authority.client(.serverAuthOnly), "unsuitable certificate purpose"),
      (try authority.client(.tooDeep), "certificate chain too long"),
      (try other.client(), "unable to get local issuer certificate"),
      // A CA is a client for whoever would take it in a handshake: its purposes decide.
      (other.root, "self-signed certificate"),
    ] {
      let result = try await ask(front, cast, FrontField.rfc9440.curl(shown))
      #expect(result.status == 400 && result["x-cn"] == nil, "\(reason)")
      try await front.daemon.logged("client SSL certificate verify error: (", reason)
    }
    // Two CAs that have issued each other's certificates, and no root.
    let circle = try Self.circle()
    let words = FrontField.rfc9440.fields(circle[0], Array(circle[1...])).flatMap { ["-H", "\($0.name): \($0.value)"] }
    #expect(try await ask(front, cast, words).status == 400)
    let der = Base64.encode(try authority.client().certificate.der)
    for (words, reason) in [
      (["Client-Cert: :\(der):", "Client-Cert: :\(der):"], "sent the field twice"),
      (["Client-Cert: :\(der):", "client-cert: :\(der):"], "sent the field twice"),
      (["Client-Cert-Chain: :\(der):"], "a chain without a certificate"),
      (["Client-Cert: \(der)"], "no byte sequence"), (["Client-Cert: :\(der.dropLast(8)):"], "can't be parsed"),
      (["Client-Cert: :\(der):;a=1"], "no byte sequence"), (["Client-Cert: :\(der):, :\(der):"], "not Base64"),
      (["Client-Cert: :AAAA:"], "can't be parsed"), (["Client-Cert: ::"], "no byte sequence"),
      (["Client-Cert: :\(der):", "Client-Cert-Chain: garbage"], "no byte sequence"),
    ] {
      let result = try await ask(front, cast, words.flatMap { ["-H", $0] })
      #expect(result.status == 400 && result.text.contains("The SSL certificate error"), "\(words)")
      try await front.daemon.logged("no client certificate can be read from the field \"Client-Cert\"", reason)
    }
    #expect(front.upstream.receivedText.components(separatedBy: "GET /").count == 2)
  }

  /// A leaf, and two CAs that have issued each other's certificates.
  private static func circle() throws -> [Certificate] {
    let first = try CertificateBuilder(commonName: "First", .authority(pathLength: nil)).selfSigned(key: .generate())
    let second = try CertificateBuilder(commonName: "Second", .authority(pathLength: nil))
      .signed(by: first, key: .generate())
    let again = try CertificateBuilder(commonName: "First", .authority(pathLength: nil))
      .signed(by: second, key: first.key)
    let leaf = try CertificateBuilder(commonName: "alice", .leaf([.clientAuth])).signed(by: second, key: .generate())
    return [leaf.certificate, second.certificate, again.certificate]
  }

  static let spellings = [
    "Client-Cert", "client-cert", "CLIENT_CERT", "Client.Cert", "client_Cert", "Client-Cert-Chain", "client_cert.chain",
  ]

  @Test func `a front that is not in the list is nobody's word, in every spelling, twice, and in trailers`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(
      scene, verify: "optional", fronts: ["127.0.0.2", "192.0.2.0/24", "unix:"],
      server: "set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP;")
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let forged = FrontField.rfc9440.curl(cast.alice.certified)
    let value = try #require(FrontField.rfc9440.fields(cast.alice.certified).first?.value)
    let all = Self.spellings.flatMap { ["-H", "\($0): \(value)", "-H", "\($0): forged"] }
    // An address that somebody writes is not the connection's.
    let pretended = ["-H", "X-Real-IP: 127.0.0.2", "-H", "X-Forwarded-For: 192.0.2.1"]
    for (words, identity, path) in [
      (forged, nil, "/head"), (all, nil, "/head"), (all + pretended, nil, "/head"), (all, bob, "/head"),
      (all, nil, "/bare/head"), (all, bob, "/bare/head"),
    ] as [([String], IdentityFiles?, String)] {
      let result = try await ask(front, cast, words, path: path, identity: identity)
      #expect(result.status == 200)
      if path == "/head" {
        #expect(result["x-verify"] == (identity == nil ? "NONE" : "SUCCESS") && result["x-raw"] == nil)
        #expect(result["x-cn"] == (identity == nil ? nil : "bob"))
      }
    }
    #expect(try await ask(front, cast, all, path: "/alice").status == 403)
    #expect(try await ask(front, cast, all, path: "/alice", identity: bob).status == 403)
    let answer = try await scene.ask(tls: front.port, identity: bob) { client in
      try client.begin("POST", "/", [("TE", "trailers")], body: .open)
      try client.send("hi")
      try client.end(trailers: Self.spellings.map { ($0, "forged") } + [("X-Stays", "yes")])
      return try client.response()
    }
    #expect(answer.status == 200)
    let received = front.upstream.receivedText
    #expect(!received.contains("forged") && !received.contains(value))
    try await front.daemon.logged("client sent \"Client-Cert\", and is not in real_client_cert_from")
    // The same from a listed address.
    let listed = try await ask(front, cast, forged + ["--interface", "127.0.0.2"])
    #expect(listed["x-cn"] == "alice")
    // A listed front that passes a stranger's spellings through.
    let others = all.indices.filter { !all[$0].hasPrefix("-H") && !all[$0].lowercased().hasPrefix("client-cert") }
    let passed = try await ask(
      front, cast, forged + others.flatMap { ["-H", all[$0]] } + ["--interface", "127.0.0.2"])
    #expect(passed["x-cn"] == "alice" && !front.upstream.receivedText.contains("forged"))
    let twice = try await ask(front, cast, all + ["--interface", "127.0.0.2"])
    #expect(twice.status == 400)
  }

  @Test func `a front is known by its own certificate`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(scene, fronts: ["dns=lb.example issuer=CN=*Root"])
    let balancer = try scene.identity("lb", cast.authority.client(commonName: "lb"))
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let forged = FrontField.rfc9440.curl(cast.alice.certified)
    let told = try await ask(front, cast, forged, identity: balancer)
    #expect(told["x-cn"] == "alice" && told.text.contains("X-Front: ") && told.text.contains("CN=lb"))
    #expect(try await ask(front, cast, [], identity: balancer).status == 400)
    let other = try await ask(front, cast, forged, identity: bob)
    #expect(other["x-cn"] == "bob" && !other.text.contains("X-Front"))
    #expect(try await ask(front, cast, forged).status == 400)
    let expired = try scene.identity("old-lb", cast.authority.client(.expired, commonName: "lb"))
    #expect(try await ask(front, cast, forged, identity: expired).status == 400)
    let foreign = try scene.identity("other-lb", TestAuthority("Other").client(commonName: "lb"))
    #expect(try await ask(front, cast, forged, identity: foreign).status == 400)
  }

  @Test func `a listed address with a certificate that does not verify is refused`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(scene)
    let foreign = try scene.identity("other-lb", TestAuthority("Other").client(commonName: "lb"))
    #expect(try await ask(front, cast, FrontField.rfc9440.curl(cast.alice.certified), identity: foreign).status == 400)
  }

  @Test(arguments: ["on", "optional"])
  func `without TLS, the address decides, and others are clients without a certificate`(verify: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(scene, verify: verify, fronts: ["127.0.0.2"], isPlain: true)
    func ask(_ words: [String]) async throws -> CurlResult {
      try await scene.curl(words + ["http://127.0.0.1:\(front.plain)/head"])
    }
    let forged = FrontField.rfc9440.curl(cast.alice.certified), there = ["--interface", "127.0.0.2"]
    let told = try await ask(forged + there)
    #expect(told.status == 200 && told["x-cn"] == "alice" && told["x-verify"] == "SUCCESS")
    #expect(told["x-verdict"] == "admitted")
    for words in [there, forged, forged + ["-H", "client_cert: x"], []] {
      let none = try await ask(words)
      #expect(none.status == (verify == "on" ? 400 : 200) && none["x-cn"] == nil)
      #expect(verify == "on" || none["x-verify"] == "NONE")
    }
  }

  @Test func `one connection carries many clients`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(scene, verify: "optional")
    let shown = [cast.alice.certified, try cast.authority.client(commonName: "bob"), cast.alice.certified]
    let fields = shown.map { FrontField.rfc9440.fields($0) } + [[]]
    let answers = try await scene.ask(tls: front.port) { client in
      try fields.flatMap { fields in [try client.get("/head", fields), try client.get("/alice", fields)] }
    }
    #expect(
      answers.enumerated().filter { $0.offset % 2 == 0 }.map { $0.element["x-cn"] } == ["alice", "bob", "alice", nil])
    // A denied client doesn't end the connection of the others.
    #expect(answers.enumerated().filter { $0.offset % 2 == 1 }.map(\.element.status) == [200, 403, 200, 403])
    guard scene.speech == .http2 else { return }
    let expired = FrontField.rfc9440.fields(try cast.authority.client(.expired)), good = fields[0]
    let after = try await scene.ask(tls: front.port) { client in
      [
        try client.get("/head", expired), try client.get("/head", good),
        try client.get("/head", [("client-cert", "x")]),
      ]
        + [try client.get("/head", good)]
    }
    #expect(after.map(\.status) == [400, 200, 400, 200])
  }

  @Test func `the Host's own block judges, whatever name the front's handshake had`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    let other = try TestAuthority("Other")
    try scene.anchors("other", other)
    func block(_ name: String, _ file: String, _ fronts: String) -> String {
      """
      server { listen 127.0.0.1:\(port) ssl; http2 on; server_name \(name); ssl_certificate server.pem;
        ssl_certificate_key server.key; ssl_client_certificate \(file); ssl_verify_client on;
        real_client_cert_header Client-Cert rfc9440; \(fronts)
        location / { return 200 "$ssl_client_s_dn_cn at \(name)"; } }
      """
    }
    _ = try await Sallyport.serve(
      scene,
      [
        ("a.test", "ca.pem", "real_client_cert_from 127.0.0.1;"),
        ("b.test", "other.pem", "real_client_cert_from 127.0.0.1;"),
        ("c.test", "other.pem", "real_client_cert_from cn=alice;"),
      ]
      .map { block($0.0, $0.1, $0.2) }.joined(separator: "\n"))
    let mallory = try other.client(commonName: "mallory")
    func ask(_ host: String, _ shown: CertifiedKey?, _ identity: IdentityFiles? = nil) async throws -> CurlResult {
      try await scene.curl(
        cast.to(port) + (identity?.curl ?? []) + (shown.map { FrontField.rfc9440.curl($0) } ?? [])
          + ["-H", "Host: \(host)", "https://a.test/"])
    }
    #expect(try await ask("a.test", cast.alice.certified).text == "alice at a.test")
    #expect(try await ask("b.test", mallory).text == "mallory at b.test")
    #expect(try await ask("b.test", cast.alice.certified).status == 400)
    #expect(try await ask("a.test", mallory).status == 400)
    // The front's certificate was verified by the block of its handshake, and says nothing at one with other CAs.
    #expect(try await ask("c.test", mallory, cast.alice).status == 421)
    #expect(try await ask("c.test", mallory).status == 400)
  }

  @Test func `report only: who would be refused is told of, and is nobody to the upstream`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(scene, server: "ssl_verify_report_only on;")
    let expired = try await ask(
      front, cast, FrontField.rfc9440.curl(cast.authority.client(.expired, commonName: "old")))
    #expect(expired.status == 200 && expired["x-verdict"]?.hasPrefix("refused:client SSL certificate verify") == true)
    #expect(expired["x-cn"] == nil && !expired.text.contains("CN=old"))
    #expect(try await ask(front, cast, [])["x-verdict"] == "refused:client sent no required SSL certificate")
    #expect(try await ask(front, cast, FrontField.rfc9440.curl(cast.alice.certified))["x-verdict"] == "admitted")
    #expect(try await ask(front, cast, ["-H", "Client-Cert: garbage"]).status == 400)
    try await front.daemon.logged("report only: client SSL certificate verify error", "CN=old")
  }

  @Test func `a page that is shown instead of a refusal has nobody's name`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(
      scene, server: "error_page 495 496 =200 @page;",
      locations: """
        location / { return 200 in; }
        location @page { proxy_pass UPSTREAM; client_identity rfc9440; proxy_set_header X-Verify $ssl_client_verify; }
        """)
    let expired = try await ask(front, cast, FrontField.rfc9440.curl(cast.authority.client(.expired)))
    #expect(expired.text.contains("X-Verify: FAILED:certificate has expired") && !expired.text.contains("Client-Cert"))
    let garbage = try await ask(front, cast, ["-H", "Client-Cert: garbage"])
    #expect(garbage.text.contains("X-Verify: FAILED:unreadable") && !garbage.text.contains("Client-Cert"))
  }

  @Test func `subrequests, limits and logs know the field's client`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await FrontedProxy(
      scene,
      http: """
        log_format who "$ssl_client_s_dn_cn $ssl_client_verify $uri";
        limit_req_zone $ssl_client_fingerprint zone=each:1m rate=1r/m;
        """,
      server: "access_log who.log who;",
      locations: """
        location / { auth_request /auth; limit_req zone=each burst=1 nodelay; proxy_pass UPSTREAM; }
        location = /auth { internal; proxy_pass UPSTREAM; proxy_set_header X-Asks-For $ssl_client_s_dn; }
        """)
    let bob = try cast.authority.client(commonName: "bob")
    for (shown, statuses) in [(cast.alice.certified, [200, 200, 503]), (bob, [200, 200, 503])] {
      for status in statuses {
        #expect(try await ask(front, cast, FrontField.rfc9440.curl(shown)).status == status)
      }
    }
    let received = front.upstream.receivedText
    #expect(received.contains("X-Asks-For: CN=alice") && received.contains("X-Asks-For: CN=bob"))
    try await until("the log") { scene.text("who.log").split(separator: "\n").count == 6 }
    #expect(
      scene.text("who.log").contains("alice SUCCESS /head\n") && scene.text("who.log").contains("bob SUCCESS /head\n"))
  }

  @Test(.ofHTTP1) func `the address is that of the connection, whatever a PROXY header says`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    func server(_ fronts: String) -> String {
      """
      server { listen 127.0.0.1:\(port) proxy_protocol; \(FrontedProxy.clients("optional"))
        set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;
        real_client_cert_from \(fronts); real_client_cert_header Client-Cert rfc9440;
        location / { return 200 "$remote_addr $ssl_client_verify $ssl_client_s_dn_cn;"; } }
      """
    }
    let daemon = try await Sallyport.start(scene, configuration(server("10.1.2.3")))
    let field = FrontField.rfc9440.fields(cast.alice.certified)[0]
    func ask() async throws -> String {
      try await scene.talk(port) { wire in
        try wire.write(
          "PROXY TCP4 10.1.2.3 127.0.0.1 1000 443\r\nGET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            + "\(field.name): \(field.value)\r\n\r\n")
        return String(decoding: try wire.readToEnd(), as: UTF8.self)
      }
    }
    #expect(try await ask().contains("10.1.2.3 NONE ;"))
    try daemon.rewrite(configuration(server("127.0.0.1")))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await ask().contains("10.1.2.3 SUCCESS alice;"))
  }

  @Test(.ofHTTP1) func `the explanation of a request says whose word counts`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    let conf = try scene.write(
      "x.conf",
      text: "events {} http { "
        + FrontedProxy.server(
          port, nil, "on", ["10.0.0.0/8"], .rfc9440, "", "location / { ssl_client_allow cn=alice; return 200 x; }")
        + " }")
    func explain(_ shown: CertifiedKey?, from: String) throws -> String {
      let fields = shown.map { FrontField.rfc9440.fields($0) } ?? []
      let explanation = try Explanation(
        of: "GET https://localhost:\(port)/", certificate: nil, from: from,
        fields: fields.map { "\($0.name): \($0.value)" }, configuration: conf)
      return explanation.lines.map { $0.split(separator: " ").joined(separator: " ") }.joined(separator: "\n")
    }
    let alice = try explain(cast.alice.certified, from: "10.1.2.3")
    for line in [
      "front the word of the peer counts (real_client_cert_from)",
      "verified; the front, and not sallyport, has seen the proof of its key", "cn=alice", "status 200",
    ] { #expect(alice.contains(line), "\(line) in \(alice)") }
    let stranger = try explain(cast.alice.certified, from: "192.0.2.1")
    #expect(stranger.contains("front no: the field Client-Cert is removed") && stranger.contains("status 400"))
    let bob = try explain(cast.authority.client(commonName: "bob"), from: "10.1.2.3")
    #expect(bob.contains("status 403"), "\(bob)")
    let old = try explain(cast.authority.client(.expired), from: "10.1.2.3")
    #expect(old.contains("does not verify, certificate has expired") && old.contains("status 400"), "\(old)")
    let none = try explain(nil, from: "10.1.2.3")
    #expect(none.contains("has no certificate: the front sent none in Client-Cert"), "\(none)")
  }
}
