import Bytes
import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// Clients of this machine come in clear, and the upstream gets TLS with a certificate.
@Suite(.staged) struct `sallyport proxy without --cert` {
  private func start(_ scene: Scene, _ port: UInt16, _ words: [String]) async throws -> ChildProcess {
    try await scene.proxy(["--listen", "127.0.0.1:\(port)"] + words) { try await scene.talk(port) { _ in true } }
  }

  private func say(_ text: String, _ scene: Scene, _ port: UInt16) async throws -> String {
    try await scene.talk(port) { wire in
      try wire.write(text)
      return String(decoding: (try? wire.readSome()) ?? [], as: UTF8.self)
    }
  }

  @Test func `requests go on with a client certificate, by TCP and by a unix socket`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let up = try cast.authority.server(names: ["up.test"])
    let server = try await OpenSSLServer.start(
      scene, scene.identity("up", up), "-www", "-Verify", "1", "-verify_return_error", "-CAfile", scene.path("ca.pem"))
    let port = try scene.port()
    let words = ["--to", "https://127.0.0.1:\(server.port)", "--upstream-name", "up.test"]
    let identity = ["--client-cert", cast.alice.certificate, "--client-key", cast.alice.key]
    let process = try await start(
      scene, port, words + identity + ["--ca", "ca.pem", "--listen", "unix:\(scene.path("p.sock"))"])
    let found = try await scene.curl(["http://localhost:\(port)/"])
    #expect(found.status == 200 && found.text.contains("CN=alice"), "\(found.text)")
    #expect(
      try await scene.curl(["--unix-socket", scene.path("p.sock"), "http://localhost/"]).text.contains("CN=alice"))
    // Of a page whose name leads to this machine.
    let strange = try await scene.curl(["-H", "Host: evil.test", "http://localhost:\(port)/"])
    #expect(strange.status == 421 && !strange.text.contains("alice"))
    #expect(try await scene.curl(["-H", "Host: up.test", "http://localhost:\(port)/"]).status == 200)
    // What it prints is a configuration file.
    let printed = try await scene.run(
      "env",
      Scene.withoutOurVariables + [Sallyport.binary(), "proxy", "--listen", "127.0.0.1:\(port)", "--print"] + words
        + identity)
    try scene.write("printed.conf", printed.output)
    let checked = try await scene.sallyport("check", "--config", scene.path("printed.conf"))
    #expect(printed.status == 0 && checked.status == 0, "\(printed.everything) \(checked.everything)")
    process.stop()
    // Without a certificate, with other CAs and with another pin, nobody gets an answer of the upstream's.
    for other in [
      ["--ca", "ca.pem"], identity, identity + ["--pin", "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="],
    ] {
      let process = try await start(scene, port, words + other)
      #expect(try await scene.curl(["http://localhost:\(port)/"]).status == 502, "\(other)")
      process.stop()
    }
  }

  @Test func `connections go on with a client certificate, also after STARTTLS`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    _ = try scene.identity("up", cast.authority.server(names: ["up.test"]))
    let identity = [
      "--tcp", "--client-cert", cast.alice.certificate, "--client-key", cast.alice.key, "--ca", "ca.pem",
      "--upstream-name", "up.test",
    ]
    let plain = try await StartTLSServer.start(scene, "pop3", "up", "tls", "mutual")
    let port = try scene.port()
    var process = try await start(scene, port, identity + ["--to", "tls://127.0.0.1:\(plain.port)"])
    #expect(try await !say("QUIT\r\n", scene, port).isEmpty)
    try await until("the bytes") { !plain.lines("inside").isEmpty }
    #expect(plain.lines("peer").allSatisfy { $0 == "alice" })
    process.stop()
    let asked = try await StartTLSServer.start(scene, "smtp", "up", "mutual")
    process = try await start(
      scene, port, identity + ["--to", "tls://127.0.0.1:\(asked.port)", "--starttls", "smtp"])
    // The greeting came in clear from the server, and is the client's.
    #expect(try await say("", scene, port).hasPrefix("220"))
    process.stop()
  }

  @Test func `an agent of SPIFFE gives the identity and says who the upstream is`() async throws {
    let scene = try Scene.ofTest(), domain = try TestTrustDomain()
    let agent = try await WorkloadAgent.start(scene)
    let id = "spiffe://example.org/ns/prod/sa/web"
    try agent.send(WorkloadMessage(try domain.svid(), id, of: domain))
    try scene.write("root.pem", text: domain.root.certificate.pem)
    let server = try await OpenSSLServer.start(
      scene, scene.identity("db", domain.svid("/ns/prod/sa/db")), "-www", "-Verify", "1", "-verify_return_error",
      "-CAfile", scene.path("root.pem"))
    for (upstream, status) in [
      ("spiffe://example.org/ns/*/sa/db", 200), ("spiffe://example.org/ns/prod/sa/other", 502),
    ] {
      let port = try scene.port()
      let process = try await start(
        scene, port,
        [
          "--to", "https://127.0.0.1:\(server.port)", "--client-cert", "spiffe:", "--upstream-id", upstream,
          "--spiffe-endpoint", "unix:\(scene.path("agent.sock"))",
        ])
      #expect(try await scene.curl(["http://localhost:\(port)/"]).status == status, "\(upstream)")
      process.stop()
    }
  }

  @Test func `what would go in clear, or let others in, doesn't start`() async throws {
    let scene = try Scene.ofTest()
    for (words, told) in [
      (["--listen", ":1", "--to", "https://a.test"], "everybody who reaches it would use the upstream, in clear"),
      (["--listen", "127.0.0.1:1", "--to", "http://a.test"], "the upstream must have TLS"),
      (["--listen", "127.0.0.1:1", "--tcp", "--to", "a.test:1"], "the upstream must have TLS"),
      (["--listen", "127.0.0.1:1", "--to", "https://a.test", "--client-ca", "x"], "who come in clear without --cert"),
    ] {
      let result = try await scene.run("env", Scene.withoutOurVariables + [Sallyport.binary(), "proxy"] + words)
      #expect(result.status == 1 && result.errors.contains(told), "\(words): \(result.everything)")
    }
  }
}
