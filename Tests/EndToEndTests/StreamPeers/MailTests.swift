import TestSupport
import Testing

@Suite(.staged, .enabled(if: EximServer.isInstalled, "Exim or swaks is not installed"))
struct `Exim through a stream` {
  /// Sends a message by swaks; `options` say how it speaks TLS.
  private func send(
    _ proxy: PeerProxy, _ subject: String, _ identity: IdentityFiles?, _ options: String..., body: String = "hello"
  ) async throws -> ToolResult {
    let scene = proxy.scene
    let verification = ["--tls-verify", "--tls-ca-path", scene.path("ca.pem")]
    let proof = identity.map { ["--tls-cert", $0.certificate, "--tls-key", $0.key] } ?? []
    let message = try scene.write("\(subject).eml", text: "Subject: \(subject)\n\n\(body)\n")
    return try await scene.run(
      "swaks",
      [
        "--server", "127.0.0.1", "--port", "\(proxy.port)", "--helo", "client.test", "--from", "alice@example.org",
        "--to", "bob@example.org", "--data", "@\(message)",
      ] + options + (options.isEmpty ? [] : verification + proof))
  }

  /// Daemons that differ in who speaks TLS how.
  enum Way: String, CaseIterable {
    case clientSTARTTLS = "starttls smtp;"
    case both = "starttls smtp; proxy_starttls smtp;"
    case upstreamSTARTTLS = "proxy_starttls smtp;"
    case clientTLS = ""

    var option: String { rawValue.hasPrefix("starttls") ? "--tls" : "--tls-on-connect" }
    var isUpstreamTLS: Bool { rawValue.contains("proxy_starttls") }
  }

  @Test(arguments: Way.allCases) func `mail arrives as it was sent`(way: Way) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await EximServer.start(scene, identity: way.isUpstreamTLS ? cast.server : nil)
    let proxy = try await PeerProxy(
      cast, to: server.port, way.rawValue + (way.isUpstreamTLS ? PeerProxy.tlsUpstream : ""))
    let body = (1...20_000).map { "line \($0)" }.joined(separator: "\n")
    let sent = try await send(proxy, "long", cast.alice, way.option, body: body)
    #expect(sent.status == 0, "\(sent.text.suffix(2000)) \(sent.errors) \(server.log)")
    try await until("the message") { server.mail.count == 1 }
    #expect(server.mail.first?.contains("Subject: long\n\n\(body)\n") == true)
    // How Exim was spoken to: ESMTP, with S where it was by TLS.
    #expect(server.mail.first?.contains(way.isUpstreamTLS ? "with esmtps" : "with esmtp ") == true, "\(server.mail)")
    let again = try await send(proxy, "second", cast.alice, way.option)
    #expect(again.status == 0)
    try await until("the second message") { server.mail.count == 2 }
    #expect(!proxy.daemon.errorLog.contains("[error]"))
  }

  @Test func `a client that goes on without STARTTLS is refused`() async throws {
    let scene = try Scene.ofTest(), server = try await EximServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port, "starttls smtp;")
    let sent = try await send(proxy, "plain", nil)
    // 23: MAIL FROM was refused.
    #expect(sent.status == 23 && sent.text.contains("<** 530 "), "\(sent.everything)")
    #expect(sent.text.contains("STARTTLS"))
    #expect(server.mail == [] && !server.log.contains("alice@example.org"))
  }

  @Test func `a client without the right certificate reaches nothing`() async throws {
    let scene = try Scene.ofTest(), server = try await EximServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port, "starttls smtp;")
    for identity in [nil, proxy.stranger] {
      let sent = try await send(proxy, "secret", identity, "--tls")
      #expect(sent.status != 0 && !sent.text.contains(" 250 Accepted"), "\(sent.everything)")
    }
    try await proxy.daemon.logged("peer did not return a certificate")
    try await proxy.daemon.logged("client SSL certificate verify error")
    #expect(server.mail == [] && !server.log.contains("alice@example.org"))
  }

  @Test func `an upstream without STARTTLS gets nothing from a daemon that wants it`() async throws {
    let scene = try Scene.ofTest(), server = try await EximServer.start(scene)
    let proxy = try await PeerProxy(
      Cast(scene), to: server.port, "starttls smtp; proxy_starttls smtp; \(PeerProxy.tlsUpstream)")
    let sent = try await send(proxy, "secret", proxy.cast.alice, "--tls")
    #expect(sent.status != 0, "\(sent.everything)")
    try await proxy.daemon.logged("[error]", "the upstream server doesn't offer", "127.0.0.1:\(server.port)")
    #expect(server.mail == [] && !server.log.contains("alice@example.org"))
  }
}

@Suite(.staged, .enabled(if: DovecotServer.isInstalled, "Dovecot is not installed"))
struct `Dovecot through a stream` {
  enum Kind: String, CaseIterable {
    case imap, pop3

    func port(_ server: DovecotServer) -> UInt16 { self == .imap ? server.imap : server.pop3 }
  }

  /// Runs curl, whose `scheme` is this kind's, or this with an s.
  private func curl(
    _ proxy: PeerProxy, _ scheme: String, _ identity: IdentityFiles?, _ options: [String], path: String = ""
  ) async throws -> ToolResult {
    try await proxy.scene.run(
      "curl",
      [
        "-q", "-sS", "--noproxy", "*", "--max-time", "30", "--cacert", proxy.scene.path("ca.pem"),
        "--user", "bob:\(DovecotServer.password)",
      ] + (identity?.curl ?? []) + options + ["\(scheme)://localhost:\(proxy.port)/\(path)", "-4"])
  }

  /// Puts a message into the mailbox past the daemon.
  private func fill(_ server: DovecotServer, _ scene: Scene, _ text: String) async throws {
    let file = try scene.write("message", text: text)
    try await scene.succeed(
      "curl", "-q", "-sS", "--noproxy", "*", "-T", file, "--user", "bob:\(DovecotServer.password)",
      "imap://127.0.0.1:\(server.imap)/INBOX")
  }

  private static let message = "Subject: one\r\n\r\n" + String(repeating: "hello\r\n", count: 100_000)

  @Test(arguments: Kind.allCases, [true, false])
  func `a client reads its mail, whether it begins with STARTTLS or with TLS`(kind: Kind, isLate: Bool) async throws {
    let scene = try Scene.ofTest(), server = try await DovecotServer.start(scene)
    try await fill(server, scene, Self.message)
    let proxy = try await PeerProxy(
      Cast(scene), to: kind.port(server), isLate ? "starttls \(kind.rawValue);" : "")
    let answer = try await curl(
      proxy, kind.rawValue + (isLate ? "" : "s"), proxy.cast.alice, ["--ssl-reqd"],
      path: kind == .imap ? "INBOX;MAILINDEX=1" : "1")
    #expect(answer.status == 0 && answer.text == Self.message, "\(answer.errors) \(server.log)")
    #expect(!proxy.daemon.errorLog.contains("[error]"))
  }

  @Test(arguments: Kind.allCases, [true, false])
  func `the upstream wants STARTTLS`(kind: Kind, isLate: Bool) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await DovecotServer.start(scene, identity: cast.server)
    let proxy = try await PeerProxy(
      cast, to: kind.port(server),
      "\(isLate ? "starttls \(kind.rawValue); " : "")proxy_starttls \(kind.rawValue); \(PeerProxy.tlsUpstream)")
    let answer = try await curl(proxy, kind.rawValue + (isLate ? "" : "s"), cast.alice, ["--ssl-reqd"])
    #expect(answer.status == 0, "\(answer.errors) \(server.log)")
    #expect(server.log.contains("TLS, session") && server.log.contains("user=<bob>"), "\(server.log)")
    #expect(!proxy.daemon.errorLog.contains("[error]"))
  }

  /// Not by `v2` and with TLS of its own: what the header tells of the client's TLS counts as its own for Dovecot 2.4, which
  /// then refuses STARTTLS.
  @Test(arguments: [("on", true), ("on", false), ("v2", false)])
  func `the upstream is told the client's address`(version: String, isUpstreamTLS: Bool) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await DovecotServer.start(
      scene, identity: isUpstreamTLS ? cast.server : nil, isToldAddresses: true)
    let proxy = try await PeerProxy(
      cast, to: server.imap,
      "starttls imap; proxy_protocol \(version); "
        + (isUpstreamTLS ? "proxy_starttls imap; \(PeerProxy.tlsUpstream)" : ""))
    let answer = try await curl(proxy, "imap", cast.alice, ["--ssl-reqd", "--interface", "127.0.0.7"])
    #expect(answer.status == 0, "\(answer.errors)")
    try await until("Dovecot's log") { server.log.contains("user=<bob>") }
    #expect(server.log.contains("rip=127.0.0.7,"), "\(server.log)")
  }

  @Test(arguments: Kind.allCases) func `a client that goes on without STARTTLS is refused`(kind: Kind) async throws {
    let scene = try Scene.ofTest(), server = try await DovecotServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: kind.port(server), "starttls \(kind.rawValue);")
    let answer = try await curl(proxy, kind.rawValue, nil, [])
    #expect(answer.status != 0 && answer.text == "", "\(answer.everything)")
    #expect(!server.log.contains("user=<bob>"), "\(server.log)")
  }

  @Test(arguments: Kind.allCases) func `a client without the right certificate reaches nothing`(kind: Kind) async throws
  {
    let scene = try Scene.ofTest(), server = try await DovecotServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: kind.port(server), "starttls \(kind.rawValue);")
    for identity in [nil, proxy.stranger] {
      let answer = try await curl(proxy, kind.rawValue, identity, ["--ssl-reqd"])
      #expect(answer.status != 0 && answer.text == "", "\(answer.everything)")
    }
    #expect(!server.log.contains("user=<bob>"), "\(server.log)")
  }
}
