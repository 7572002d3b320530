import Glibc
import TestSupport
import Testing

/// `proxy_starttls`: upstreams that are asked for TLS in the words of their protocol.
@Suite(.staged) struct `Upstreams that are asked for TLS` {
  /// A server of the protocol whose TLS is HAProxy's, and what stands behind that.
  private static func upstream(
    _ scene: Scene, _ kind: Spoken, after agreement: @escaping @Sendable (Wire) throws -> Void = { _ in }
  ) async throws -> (clear: ScriptedUpstream, inside: ScriptedUpstream) {
    let cast = try Cast(scene)
    _ = try scene.identity("upstream", cast.authority.server(names: ["up.test"]))
    try scene.write("both.pem", text: scene.text("upstream.pem") + scene.text("upstream.key"))
    let inside = try ScriptedUpstream.mirror(scene), port = try scene.port()
    try await HAProxy.start(
      scene, port: port, to: inside.port, mode: "tcp", bind: "ssl crt \(scene.path("both.pem"))")
    let clear = try ScriptedUpstream(scene) { wire, _ in
      try kind.ask(wire) { try $0.write(kind.agreement) }
      try agreement(wire)
      let server = try Wire.dial(port: port)
      defer { server.close() }
      try wire.pass(to: server)
    }
    return (clear, inside)
  }

  private static let trust = "proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.test;"

  // MARK: TLS

  @Test(arguments: Spoken.allCases)
  func `an upstream is asked, and the client's bytes are inside TLS`(kind: Spoken) async throws {
    let scene = try Scene.ofTest()
    let (clear, inside) = try await Self.upstream(scene, kind)
    let front = try await StreamFront(
      scene, to: clear, server: "\(Self.trust) proxy_starttls \(kind.rawValue);")
    let heard = try await front.talk { wire in
      // The client has had no greeting, so it gets the upstream's.
      let greeting = kind.greeting.isEmpty ? "" : try wire.line() + "\r\n"
      return (greeting, try wire.echoes("s3cr3t"))
    }
    #expect(heard.0 == kind.greeting && heard.1)
    #expect(inside.received == [Array("s3cr3t".utf8)])
    #expect(!clear.receivedText.contains("s3cr3t"))
  }

  @Test(arguments: Spoken.allCases)
  func `a client that has asked for TLS too gets no second greeting`(kind: Spoken) async throws {
    let scene = try Scene.ofTest()
    let (clear, inside) = try await Self.upstream(scene, kind)
    let front = try await StreamFront(
      scene, to: clear, listen: "ssl",
      server: "\(Cast.tls) starttls \(kind.rawValue); \(Self.trust) proxy_starttls \(kind.rawValue);")
    let alice = ["-cert", scene.path("alice.pem"), "-key", scene.path("alice.key")]
    #expect(
      try await scene.talk(tls: front.port, ["-starttls", kind.rawValue] + alice) { try $0.echoes("s3cr3t\r\n") })
    #expect(inside.received == [Array("s3cr3t\r\n".utf8)])
  }

  /// The upstream has no TLS, and its greeting would be a second one for the client.
  @Test(arguments: [Spoken.smtp, .imap, .pop3])
  func `the greeting of an upstream without TLS is for nobody either`(kind: Spoken) async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      // In two pieces, and with the first bytes of the session behind it.
      try wire.write(String(kind.greeting.dropLast(3)))
      usleep(20_000)
      try wire.write(String(kind.greeting.suffix(2)) + "and more\r\n")
      try wire.mirror()
    }
    let front = try await StreamFront(
      scene, to: upstream, listen: "ssl", server: "\(Cast.tls) starttls \(kind.rawValue);")
    let alice = ["-cert", scene.path("alice.pem"), "-key", scene.path("alice.key")]
    let heard = try await scene.talk(tls: front.port, ["-starttls", kind.rawValue] + alice) { wire in
      let line = try wire.line()
      return (line, try wire.echoes("EHLO me\r\n"))
    }
    #expect(heard.0 == "and more" && heard.1)
  }

  @Test(arguments: [Spoken.smtp, .imap, .pop3])
  func `an upstream that greets with a refusal gets nothing of the client`(kind: Spoken) async throws {
    let scene = try Scene.ofTest()
    let refusal = kind == .smtp ? "554 no\r\n" : kind == .imap ? "* BYE no\r\n" : "-ERR no\r\n"
    let front = try await Self.refused(scene, server: "proxy_starttls \(kind.rawValue);") { wire in
      try wire.write(refusal)
    }
    try await front.daemon.logged("[error]", "the upstream server refused the session")
  }

  // MARK: No TLS

  /// Sends a secret to an upstream with this script, and shows that it got nothing of it, nor the client anything.
  @discardableResult private static func refused(
    _ scene: Scene, server: String, sourceLocation: SourceLocation = #_sourceLocation,
    _ script: @escaping @Sendable (Wire) throws -> Void
  ) async throws -> StreamFront {
    _ = try Cast(scene)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try script(wire)
      _ = try wire.readToEnd()
    }
    let front = try await StreamFront(scene, to: upstream, server: "\(Self.trust) \(server)")
    let heard = try await front.talk { wire in
      try? wire.write("s3cr3t")
      return try wire.readToEnd()
    }
    #expect(heard.isEmpty, sourceLocation: sourceLocation)
    #expect(!upstream.receivedText.contains("s3cr3t"), sourceLocation: sourceLocation)
    #expect(try await front.line().status == "502", sourceLocation: sourceLocation)
    return front
  }

  @Test(arguments: Spoken.allCases)
  func `an upstream that refuses TLS gets nothing of the client`(kind: Spoken) async throws {
    let scene = try Scene.ofTest()
    let refusal: [UInt8] =
      switch kind {
      case .postgres: [UInt8(ascii: "N")]
      case .smtp: Array("454 4.7.0 later\r\n".utf8)
      case .imap: Array("a1 NO later\r\n".utf8)
      case .pop3: Array("-ERR later\r\n".utf8)
      case .ldap: LDAP.message(1, LDAP.result(0x78, 2))
      }
    let front = try await Self.refused(scene, server: "proxy_starttls \(kind.rawValue);") { wire in
      try kind.ask(wire) { try $0.write(refusal) }
    }
    try await front.daemon.logged(
      "[error]", kind == .postgres ? "the upstream server doesn't offer TLS" : "the upstream server refused TLS")
    try await front.endsWithoutSessions()
  }

  @Test func `an upstream that offers no STARTTLS gets nothing of the client`() async throws {
    let scene = try Scene.ofTest()
    let front = try await Self.refused(scene, server: "proxy_starttls smtp;") { wire in
      try Spoken.smtp.ask(wire, offers: false) { _ in }
    }
    try await front.daemon.logged("[error]", "the upstream server doesn't offer STARTTLS")
  }

  @Test(arguments: Spoken.allCases, [true, false])
  func `CVE-2021-23222, CVE-2021-38371: bytes in clear behind the upstream's agreement end the connection`(
    kind: Spoken, isTogether: Bool
  ) async throws {
    let scene = try Scene.ofTest()
    let injected = kind == .postgres ? Array("EInjected".utf8) : Array("250 injected\r\n".utf8)
    let front = try await Self.refused(scene, server: "proxy_starttls \(kind.rawValue);") { wire in
      try kind.ask(wire) { wire in
        if isTogether { return try wire.write(kind.agreement + injected) }
        // Behind it, they are no TLS.
        try wire.write(kind.agreement)
        _ = try wire.readSome()
        try wire.write(injected)
      }
    }
    if isTogether {
      try await front.daemon.logged("[error]", "the upstream server sent bytes in clear behind its agreement to TLS")
    } else {
      try await front.daemon.logged("[error]", "while SSL handshaking to upstream")
    }
    try await front.endsWithoutSessions()
  }

  @Test(arguments: [
    (Spoken.imap, "* OK ready\r\na1 OK go\r\n"), (.imap, "* PREAUTH ready\r\n"), (.smtp, "220 up\r\n250 STARTTLS\r\n"),
    (.pop3, "+OK ready\r\n+OK go\r\n"),
  ])
  func `CVE-2026-42246: an answer that comes before its question leaves nothing in clear`(
    kind: Spoken, said: String
  ) async throws {
    let scene = try Scene.ofTest()
    let front = try await Self.refused(scene, server: "proxy_starttls \(kind.rawValue);") { wire in
      try wire.write(said)
    }
    try await front.daemon.logged(
      "[error]",
      said.contains("PREAUTH")
        ? "the upstream server greeted with PREAUTH" : "the upstream server sent an answer before the question")
    try await front.endsWithoutSessions()
  }

  @Test(arguments: [Spoken.postgres, .smtp])
  func `an upstream whose TLS isn't trusted gets nothing of the client`(kind: Spoken) async throws {
    let scene = try Scene.ofTest()
    let (clear, inside) = try await Self.upstream(scene, kind)
    let front = try await StreamFront(
      scene, to: clear,
      server: """
        proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name other.test; proxy_starttls \(kind.rawValue);
        """)
    let heard = try await front.talk { wire in
      try? wire.write("s3cr3t")
      return try wire.readToEnd()
    }
    #expect(heard.isEmpty)
    #expect(try await front.line().status == "502")
    try await front.daemon.logged("[error]", "name: ", "while SSL handshaking to upstream")
    #expect(inside.receivedText.isEmpty && !clear.receivedText.contains("s3cr3t"))
  }

  @Test func `a session goes to the next server if one has no TLS`() async throws {
    let scene = try Scene.ofTest()
    let (clear, inside) = try await Self.upstream(scene, .postgres)
    let without = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.read(exactly: 8)
      try wire.write("N")
      _ = try wire.readToEnd()
    }
    let front = try await StreamFront(
      scene, to: "some", server: "\(Self.trust) proxy_starttls postgres;",
      stream: """
        upstream some { server 127.0.0.1:\(without.port) max_fails=0; server 127.0.0.1:\(clear.port) backup; }
        """)
    #expect(try await front.talk { try $0.echoes("s3cr3t") })
    #expect(inside.received == [Array("s3cr3t".utf8)])
    #expect(without.received == [Postgres.sslRequest])
  }
}
