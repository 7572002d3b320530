import Glibc
import TestSupport
import Testing

/// `starttls`: clients that ask for TLS in the words of their protocol.
@Suite(.staged) struct `Negotiated TLS` {
  /// A front that asks for certificates, before an upstream that greets and then sends back what comes.
  private static func front(
    _ scene: Scene, _ kind: Spoken, server: String = "", _ script: ScriptedUpstream.Script? = nil
  ) async throws -> (front: StreamFront, upstream: ScriptedUpstream) {
    _ = try Cast(scene)
    let upstream = try ScriptedUpstream(
      scene,
      script: script ?? { wire, _ in
        try wire.write(kind.greeting)
        try wire.mirror()
      })
    let front = try await StreamFront(
      scene, to: upstream, listen: "ssl", server: "\(Cast.tls) starttls \(kind.rawValue); \(server)")
    return (front, upstream)
  }

  // MARK: Real clients

  @Test(arguments: Spoken.allCases, ["-tls1_2", "-tls1_3"])
  func `openssl's client comes to TLS, with its certificate`(kind: Spoken, version: String) async throws {
    let scene = try Scene.ofTest()
    let (front, upstream) = try await Self.front(scene, kind)
    let alice = ["-cert", scene.path("alice.pem"), "-key", scene.path("alice.key")]
    let words = ["-starttls", kind.rawValue, version, "-CAfile", scene.path("ca.pem"), "-verify_return_error"]
    #expect(try await scene.talk(tls: front.port, words + alice) { try $0.echoes("EHLO inside\r\n") })
    // The upstream gets what came inside TLS, and nothing of what was said before.
    #expect(upstream.received == [Array("EHLO inside\r\n".utf8)])
    let refused = try await scene.talk(tls: front.port, words) { try $0.readToEnd() }
    #expect(refused.isEmpty)
    #expect(upstream.received.count == 1)
  }

  private static let mail = """
    import imaplib, poplib, smtplib, ssl, sys
    folder, ports = sys.argv[1], list(map(int, sys.argv[2:5]))
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(folder + "/ca.pem")
    made.load_cert_chain(folder + "/alice.pem", folder + "/alice.key")
    smtp = smtplib.SMTP("localhost", ports[0], timeout=20)
    smtp.starttls(context=made)
    print(smtp.ehlo()[0], smtp.noop()[0], smtp.sock.version())
    smtp.quit()
    imap = imaplib.IMAP4("localhost", ports[1], timeout=20)
    imap.starttls(ssl_context=made)
    print(imap.login("alice", "s3cr3t")[0], imap.noop()[0], imap.sock.version())
    imap.logout()
    pop = poplib.POP3("localhost", ports[2], timeout=20)
    pop.stls(context=made)
    print(pop.user("alice"), pop.pass_("s3cr3t"), pop.sock.version())
    pop.quit()
    """

  @Test func `Python's clients of SMTP, IMAP and POP3 come to TLS`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let kinds = [Spoken.smtp, .imap, .pop3]
    let ports = try kinds.map { _ in try scene.port() }
    let servers = try zip(kinds, ports).map { kind, port in
      let upstream = try ScriptedUpstream(scene) { wire, _ in try Mail.serve(wire, kind) }
      return
        "server { listen 127.0.0.1:\(port) ssl; \(Cast.tls) starttls \(kind.rawValue); proxy_pass 127.0.0.1:\(upstream.port); }"
    }
    _ = try await Sallyport.start(scene, streamConfiguration(servers.joined(separator: "\n")))
    let script = try scene.write("mail.py", text: Self.mail)
    let result = try await scene.run("python3", [script, scene.folder] + ports.map(String.init))
    #expect(
      result.text == "250 250 TLSv1.3\nOK OK TLSv1.3\nb'+OK' b'+OK' TLSv1.3\n", "\(result.everything)")
  }

  @Test(.enabled("psql is not installed") { await Scene.succeeds("psql", ["--version"]) })
  func `psql comes to TLS, and verifies whom it speaks with`() async throws {
    let scene = try Scene.ofTest()
    let (front, _) = try await Self.front(scene, .postgres) { wire, _ in try Postgres.serve(wire) }
    func ask(_ more: String) async throws -> ToolResult {
      try await scene.run(
        "psql",
        [
          "host=localhost hostaddr=127.0.0.1 port=\(front.port) user=alice dbname=d \(more)", "-XAtc", "select 1",
        ], environment: ["HOME": scene.folder])
    }
    let root = "sslrootcert=\(scene.path("ca.pem"))"
    #expect(chmod(scene.path("alice.key"), 0o600) == 0)
    let alice = "sslcert=\(scene.path("alice.pem")) sslkey=\(scene.path("alice.key"))"
    let result = try await ask("sslmode=verify-full \(root) \(alice)")
    #expect(result.text == "one\n", "\(result.everything)")
    let plain = try await ask("sslmode=disable")
    #expect(
      plain.errors.contains("FATAL:  connection requires TLS: use sslmode=require or stronger"), "\(plain.errors)")
    #expect(try await ask("sslmode=require").status != 0)
  }

  @Test(.enabled("ldapsearch is not installed") { await Scene.succeeds("ldapsearch", ["-VV"]) })
  func `ldapsearch comes to TLS, and is told what it lacks without`() async throws {
    let scene = try Scene.ofTest()
    let (front, _) = try await Self.front(scene, .ldap) { wire, _ in try LDAP.serve(wire) }
    func ask(_ words: String...) async throws -> ToolResult {
      try await scene.run(
        "ldapsearch", ["-H", "ldap://127.0.0.1:\(front.port)", "-x", "-b", "dc=tes", "-s", "base", "-LLL"] + words,
        environment: [
          "LDAPTLS_CACERT": scene.path("ca.pem"), "LDAPTLS_CERT": scene.path("alice.pem"),
          "LDAPTLS_KEY": scene.path("alice.key"), "HOME": scene.folder,
        ])
    }
    let result = try await ask("-ZZ")
    #expect(result.text.contains("dn: dc=tes"), "\(result.everything)")
    let plain = try await ask()
    #expect(plain.errors.contains("Confidentiality required"), "\(plain.everything)")
  }

  // MARK: Clients that don't ask

  @Test(arguments: Spoken.allCases)
  func `a client that asks for nothing is told so in its protocol, and no upstream hears of it`(kind: Spoken)
    async throws
  {
    let scene = try Scene.ofTest()
    let (front, upstream) = try await Self.front(scene, kind)
    let (said, answer) = kind.unasked
    let heard = try await front.talk { wire in
      if !kind.greeting.isEmpty { _ = try wire.line() }
      try wire.write(said)
      wire.finishWriting()
      return try wire.textToEnd()
    }
    #expect(heard.contains(answer), "\(heard)")
    #expect(upstream.connections == 0)
    #expect(try await front.line().status == "400")
    try await front.endsWithoutSessions()
  }

  @Test(
    arguments: Spoken.allCases, ["GET / HTTP/1.1\r\n\r\n", "\u{16}\u{3}\u{1}\u{0}\u{5}", "\u{FF}\u{0}\u{FF}\r\n\r\n"])
  func `a client of another protocol gets nowhere`(kind: Spoken, said: String) async throws {
    let scene = try Scene.ofTest()
    let (front, upstream) = try await Self.front(scene, kind)
    try await front.talk { wire in
      try wire.write(said.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) })
      wire.finishWriting()
      _ = try wire.readToEnd()
    }
    #expect(upstream.connections == 0)
    try await front.endsWithoutSessions()
  }

  @Test func `a mail client may talk before it asks, and not for ever`() async throws {
    let scene = try Scene.ofTest()
    let (front, upstream) = try await Self.front(scene, .smtp)
    let heard = try await front.talk { wire in
      var heard = [try wire.line()]
      for line in ["EHLO me", "NOOP", "VRFY x", "QUIT"] {
        try wire.write(line + "\r\n")
        heard.append(try wire.line())
        if line == "EHLO me" { heard.append(try wire.line()) }
      }
      return heard + [try wire.textToEnd()]
    }
    #expect(heard.map { $0.prefix(4) } == ["220 ", "250-", "250 ", "250 ", "530 ", "221 ", ""], "\(heard)")
    let flood = try await front.talk { wire in
      try? wire.write(String(repeating: "NOOP\r\n", count: 1000))
      return try wire.textToEnd()
    }
    #expect(flood.contains("421 4.7.0"))
    #expect(upstream.connections == 0)
  }

  // MARK: Bytes that come too early

  @Test(arguments: Spoken.allCases, [true, false])
  func `CVE-2021-23214, CVE-2011-0411: bytes in clear behind a request for TLS end the connection`(
    kind: Spoken, isHello: Bool
  ) async throws {
    let scene = try Scene.ofTest()
    let (front, upstream) = try await Self.front(scene, kind)
    // Also the beginning of TLS: who asks waits for the answer.
    let injected = isHello ? [0x16, 3, 1, 2, 0, 1] : kind.unasked.said
    let heard = try await front.talk { wire in
      if !kind.greeting.isEmpty { _ = try wire.line() }
      try wire.write(kind.request + injected)
      return try wire.readToEnd()
    }
    #expect(heard.isEmpty, "\(heard)")
    #expect(upstream.connections == 0)
    try await front.daemon.logged("the client sent bytes in clear behind a request after which it must wait")
    #expect(try await front.line().status == "400")
    try await front.endsWithoutSessions()
  }

  @Test(arguments: Spoken.allCases)
  func `what comes in clear after the agreement is no TLS, and goes nowhere`(kind: Spoken) async throws {
    let scene = try Scene.ofTest()
    let (front, upstream) = try await Self.front(scene, kind)
    try await front.talk { wire in
      if !kind.greeting.isEmpty { _ = try wire.line() }
      try wire.write(kind.request)
      _ = try wire.readSome()
      try wire.write(kind.unasked.said)
      wire.finishWriting()
      _ = try wire.readToEnd()
    }
    #expect(upstream.connections == 0)
    #expect(try await front.line().status == "500")
    try await front.endsWithoutSessions()
  }

  @Test(arguments: Spoken.allCases) func `a request may come byte by byte`(kind: Spoken) async throws {
    let scene = try Scene.ofTest()
    let (front, _) = try await Self.front(scene, kind)
    let relay = try ScriptedUpstream(scene) { client, _ in
      let server = try Wire.dial(port: front.port)
      defer { server.close() }
      if !kind.greeting.isEmpty { _ = try server.line() }
      for byte in kind.request {
        try server.write([byte])
        usleep(500)
      }
      // The agreement, and then TLS with the client of this relay, which began with TLS at once.
      _ = try server.readSome()
      try client.pass(to: server)
    }
    #expect(try await scene.tlsClient(relay.port, TLSSteps("tls", "send=hello", "read=5")) == "hello")
  }

  // MARK: PostgreSQL

  @Test func `a client may ask for GSSAPI first, once, and is refused it`() async throws {
    let scene = try Scene.ofTest()
    let (front, upstream) = try await Self.front(scene, .postgres)
    let request = "clear=\\x00\\x00\\x00\\x08\\x04\\xd2\\x16"
    #expect(
      try await scene.tlsClient(
        front.port,
        TLSSteps("\(request)\\x30", "hear=1", "\(request)\\x2f", "hear=1", "tls", "send=hello", "read=5")) == "NShello")
    let twice = try await front.talk { wire in
      try wire.write(Postgres.gssRequest)
      _ = try wire.read(exactly: 1)
      try wire.write(Postgres.gssRequest)
      return try wire.readToEnd()
    }
    #expect(twice.isEmpty)
    let together = try await front.talk { wire in
      try wire.write(Postgres.gssRequest + Postgres.sslRequest)
      return try wire.readToEnd()
    }
    #expect(together.isEmpty)
    #expect(upstream.connections == 1)
  }

  @Test func `TLS may begin at once, if ALPN selects PostgreSQL's protocol`() async throws {
    let scene = try Scene.ofTest()
    let (front, upstream) = try await Self.front(scene, .postgres)
    #expect(
      try await scene.tlsClient(front.port, TLSSteps("alpn=postgresql", "tls", "send=hello", "read=5")) == "hello")
    #expect(upstream.received.map(\.count) == [5])
    // ALPACA: a client of another protocol, led here by a name that they share, is none of PostgreSQL's.
    for steps in [TLSSteps("tls", "send=hello", "rest"), TLSSteps("alpn=http/1.1", "tls", "send=hello", "rest")] {
      let came = try await scene.tlsClient(front.port, steps)
      #expect(!came.contains("hello"), "\(came)")
    }
    #expect(upstream.connections == 1)
    try await front.daemon.logged("the client began with TLS and without ALPN \"postgresql\"")
  }

  @Test func `a CancelRequest passes to the upstream, and nothing comes back`() async throws {
    let scene = try Scene.ofTest()
    let ended = Flag()
    let (front, upstream) = try await Self.front(scene, .postgres) { wire, number in
      _ = try wire.read(exactly: 16)
      if number == 1 { try wire.write(Pattern.bytes(1_000_000)) }
      wire.finishWriting()
      _ = try wire.readToEnd()
      if number == 1 { ended.raise() }
    }
    for number in 0..<2 {
      let heard = try await front.talk { wire in
        for byte in Postgres.cancelRequest { try wire.write([byte]) }
        return try wire.readToEnd()
      }
      #expect(heard.isEmpty)
      let line = try await front.line(number)
      #expect(line.status == "200" && line["bytes_sent"] == "0")
    }
    try await until("the end at the upstream") { ended.isRaised }
    #expect(upstream.received == [Postgres.cancelRequest, Postgres.cancelRequest])
    // What follows it in clear goes nowhere.
    let followed = try await front.talk { wire in
      try wire.write(Postgres.cancelRequest + Postgres.startup)
      return try wire.readToEnd()
    }
    #expect(followed.isEmpty)
    #expect(upstream.connections == 2)
    try await front.endsWithoutSessions()
  }

  @Test func `a CancelRequest goes on in TLS where the upstream has it, and not past a rule on addresses`() async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let identity = try scene.identity("upstream", cast.authority.server(names: ["up.test"]))
    let server = try await scene.tlsServer(TLSSteps("as=upstream", "hear=8", "clear=S", "tls", "read=16"))
    #expect(identity.key == scene.path("upstream.key"))
    let (open, shut) = try (scene.port(), scene.port())
    _ = try await Sallyport.start(
      scene,
      streamConfiguration(
        """
        \(Cast.tls) starttls postgres; proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.test;
        proxy_starttls postgres;
        server { listen 127.0.0.1:\(open) ssl; proxy_pass 127.0.0.1:\(server.port); }
        server { listen 127.0.0.1:\(shut) ssl; deny 127.0.0.1; allow all; proxy_pass 127.0.0.1:\(server.port); }
        """))
    for port in [shut, open] {
      let heard = try await scene.talk(port) { wire in
        try? wire.write(Postgres.cancelRequest)
        wire.finishWriting()
        return try wire.readToEnd()
      }
      #expect(heard.isEmpty)
      try await until("the line of port \(port)") { StreamLine.all(scene, port).count == 1 }
    }
    let heard = try await server.line().unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
    #expect(heard.prefix(24) == (Postgres.sslRequest + Postgres.cancelRequest)[...])
    #expect(server.lines.count == 1)
  }
}
