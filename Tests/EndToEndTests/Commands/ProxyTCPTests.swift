import Bytes
import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `sallyport proxy --tcp` {
  private func start(_ scene: Scene, _ port: UInt16, _ words: [String], environment: [String] = []) async throws
    -> ChildProcess
  {
    try await scene.proxy(words, environment: environment) { try await scene.talk(port) { _ in true } }
  }

  private static func own(_ port: UInt16) -> [String] {
    [
      "--tcp", "--listen", "127.0.0.1:\(port)", "--cert", "server.pem", "--key", "server.key", "--client-ca", "ca.pem",
    ]
  }

  /// What comes back after these bytes; empty if the connection ends before.
  private func say(
    _ text: String, _ scene: Scene, _ port: UInt16, _ identity: IdentityFiles?, _ arguments: [String] = []
  ) async throws -> String {
    try await scene.talk(tls: port, identity: identity, arguments) { wire in
      // A refused client may find its connection closed already.
      guard (try? wire.write(text)) != nil else { return "" }
      return String(decoding: (try? wire.readSome()) ?? [], as: UTF8.self)
    }
  }

  @Test func `passes the bytes of a CA's clients to an upstream in clear`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      while case let bytes = try wire.readSome(), !bytes.isEmpty { try wire.write(bytes) }
    }
    let (port, probes) = (try scene.port(), try scene.port())
    let words = Self.own(port) + ["--to", "127.0.0.1:\(upstream.port)", "--health-listen", ":\(probes)"]
    _ = try await start(scene, port, words + ["--deny", "cn=bob"])
    #expect(try await say("hello\n", scene, port, cast.alice) == "hello\n")
    #expect(try await scene.curl(["http://127.0.0.1:\(probes)/"]).text == "ok\n")
    let before = upstream.connections
    #expect(try await say("hello\n", scene, port, nil) == "")
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    #expect(try await say("hello\n", scene, port, bob) == "")
    #expect(upstream.connections == before)
    try await until("a line of the session") {
      scene.text("proxy.err").contains("SUCCESS \"CN=alice")
    }
    let health = try await scene.sallyport("health", "--listen", "127.0.0.1:\(port)")
    #expect(health.status == 0, "\(health.everything)")
    // What it prints is a configuration file.
    let printed = try await scene.run(
      "env", Scene.withoutOurVariables + [Sallyport.binary(), "proxy"] + words + ["--print"])
    try scene.write("printed.conf", printed.output)
    let checked = try await scene.sallyport("check", "--config", scene.path("printed.conf"))
    #expect(printed.status == 0 && checked.status == 0, "\(printed.everything) \(checked.everything)")
  }

  @Test func `an upstream with TLS gets no byte unless it is trusted`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let up = try cast.authority.server(names: ["up.test"])
    _ = try scene.identity("up", up)
    let server = try await StartTLSServer.start(scene, "pop3", "up", "tls", "mutual")
    let pin = Pin.spelling(publicKeyDigest: up.certificate.spkiSHA256)
    let identity = ["--upstream-cert", cast.alice.certificate, "--upstream-key", cast.alice.key]
    for (words, isTrusted) in [
      (["--upstream-ca", "ca.pem", "--upstream-name", "up.test"], true), (["--pin", pin], true), ([], false),
      (["--upstream-ca", "ca.pem", "--upstream-name", "other.test"], false),
      (["--pin", "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="], false),
    ] {
      let port = try scene.port()
      let process = try await start(
        scene, port, Self.own(port) + ["--to", "tls://127.0.0.1:\(server.port)"] + identity + words)
      let before = server.lines("inside").count
      #expect(try await say("QUIT\r\n", scene, port, cast.alice).isEmpty != isTrusted, "\(words)")
      if isTrusted { try await until("the bytes") { server.lines("inside").count == before + 1 } }
      #expect(server.lines("inside").count == before + (isTrusted ? 1 : 0), "\(words)")
      process.stop()
    }
    #expect(server.lines("peer").allSatisfy { $0 == "alice" })
  }

  @Test(arguments: ["postgres", "smtp", "imap", "pop3", "ldap"])
  func `asks and is asked for TLS in the words of the protocol, from variables`(kind: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = try await StartTLSServer.start(scene, kind)
    let port = try scene.port()
    _ = try await start(
      scene, port, Self.own(port).filter { $0 != "--tcp" },
      environment: [
        "SALLYPORT_TCP=on", "SALLYPORT_STARTTLS=\(kind)", "SALLYPORT_UPSTREAM_STARTTLS=\(kind)",
        "SALLYPORT_TO=localhost:\(server.port)", "SALLYPORT_UPSTREAM_CA=ca.pem",
      ])
    _ = try await say("hello\r\n", scene, port, cast.alice, ["-starttls", kind])
    try await until("the bytes") { server.lines("inside") == [#"b'hello\r\n'"#] }
    #expect(try await say("hello\r\n", scene, port, nil, ["-starttls", kind]) == "")
    #expect(server.lines("inside").count == 1)
  }

  @Test func `a wrong option is told, and the help says what --to means`() async throws {
    let scene = try Scene.ofTest()
    for (words, told) in [
      (["--to", "https://db:5432"], "with --tcp it must be HOST:PORT or tls://HOST:PORT"),
      (["--to", "db"], "--to \"db\": it has no port"),
      (["--to", "db:1", "--starttls", "ftp"], "it must be one of postgres, smtp, imap, pop3, ldap"),
    ] {
      let result = try await scene.run(
        "env", Scene.withoutOurVariables + [Sallyport.binary(), "proxy"] + Self.own(1) + words + ["--print"])
      #expect(result.status == 1 && result.errors.contains(told), "\(words): \(result.everything)")
    }
    let help = try await scene.sallyport("proxy", "--help")
    for word in ["--tcp", "--starttls", "--upstream-starttls", "tls://HOST:PORT", "in clear"] {
      #expect(help.text.contains(word), "\(word)")
    }
  }

  @Test func `a trial says how to connect`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    _ = try await start(
      scene, port,
      [
        "--tcp", "--listen", "127.0.0.1:\(port)", "--to", "127.0.0.1:\(upstream.port)", "--demo-ca", "--demo-dir",
        scene.path("trial"),
      ])
    try await until("the guide") {
      scene.text("proxy.err").contains("openssl s_client -quiet -connect localhost:\(port)")
    }
  }
}
