import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

/// `audit_log`: who got in, who didn't and why, in lines that hang on each other.
@Suite(.staged) struct `An audit log` {
  private static func verify(_ scene: Scene, _ words: [String]) async throws -> (status: Int32, text: String) {
    let result = try await scene.run(Sallyport.binary(), ["audit", "verify"] + words)
    return (result.status, result.text)
  }

  @Test func `tells of admissions, refusals, revocations, reloads, start and stop, and verify finds what was changed`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let stranger = try scene.identity("stranger", TestAuthority("Other").client(commonName: "eve"))
    let key = try PrivateKey.generate(.ed25519)
    _ = try scene.write("audit.key", key.pem.withUnsafeBytes { Array($0) })
    _ = try scene.write("audit.pub", key.publicKey.subjectPublicKeyInfo)
    let front = try await MutualProxy(
      scene, server: "audit_log \(scene.path("audit.log")) key=audit.key every=1s;",
      locations: "location / { return 200 in; } location /boss { ssl_client_allow cn=boss; return 200 in; }")
    func ask(_ path: String, _ who: IdentityFiles?) async throws -> Int {
      try await scene.curl(cast.to(front.port) + (who?.curl ?? []) + ["https://localhost\(path)"]).status
    }
    #expect(try await ask("/", cast.alice) == 200)
    #expect(try await ask("/boss", cast.alice) == 403)
    #expect(try await ask("/", stranger) == 400)
    #expect(try await ask("/", nil) == 400)
    front.daemon.signal(SIGHUP)
    _ = try await front.daemon.logged("generation 2")
    // Rotation.
    rename(scene.path("audit.log"), scene.path("audit.log.1"))
    front.daemon.signal(SIGUSR1)
    try await until("the next file") { scene.text("audit.log").contains("\"resume\"") }
    #expect(try await ask("/", cast.alice) == 200)
    front.daemon.signal(SIGQUIT)
    _ = try await front.daemon.process.ended()

    let first = scene.text("audit.log.1"), second = scene.text("audit.log")
    let lines = first.split(separator: "\n")
    func has(_ words: String...) -> Bool { lines.contains { line in words.allSatisfy { line.contains($0) } } }
    #expect(has("\"event\":\"start\"", "\"generation\":1"))
    #expect(has("\"event\":\"admission\"", "\"verdict\":\"let_in\"", "CN=alice"))
    #expect(has("\"event\":\"refusal\"", "\"cause\":\"rule\"", "CN=alice", "access forbidden by rule"))
    #expect(has("\"event\":\"admission\"", "\"verdict\":\"refused\"", "CN=eve"))
    #expect(has("\"event\":\"admission\"", "client sent no required SSL certificate"))
    #expect(has("\"event\":\"reload\"", "\"generation\":2"))
    #expect(second.contains("\"event\":\"stop\""))
    let files = [scene.path("audit.log.1"), scene.path("audit.log")]
    let whole = try await Self.verify(scene, ["--key", scene.path("audit.pub")] + files)
    #expect(
      whole.status == 0 && whole.text.contains("the chain is whole") && !whole.text.contains("gap:"), "\(whole.text)")

    // Who turns a refusal into an admission.
    _ = try scene.write("forged", text: first.replacing("\"verdict\":\"refused\"", with: "\"verdict\":\"let_in\""))
    let forged = try await Self.verify(scene, [scene.path("forged"), files[1]])
    #expect(forged.status == 2 && forged.text.contains("forged:") && forged.text.contains("the line was changed"))
    // Who leaves out a line.
    let removed = lines.filter { !$0.contains("\"cause\":\"rule\"") }.map { "\($0)\n" }.joined()
    _ = try scene.write("removed", text: removed)
    let gone = try await Self.verify(scene, [scene.path("removed"), files[1]])
    #expect(gone.status == 2 && gone.text.contains("of the log is missing"))
  }

  @Test func `a process that is killed leaves a gap that is told, and the next one goes on`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let server = "audit_log \(scene.path("audit.log"));"
    let front = try await MutualProxy(scene, server: server, locations: "location / { return 200 in; }")
    _ = try await scene.curl(cast.to(front.port) + cast.alice.curl + ["https://localhost/"])
    try await until("the line") { scene.text("audit.log").contains("CN=alice") }
    front.daemon.signal(SIGKILL)
    _ = try await front.daemon.process.ended()
    let next = try await MutualProxy(scene, server: server, locations: "location / { return 200 in; }")
    try await until("its first line") {
      scene.text("audit.log").split(separator: "\n").filter { $0.contains("\"event\":\"start\"") }.count == 2
    }
    next.daemon.signal(SIGQUIT)
    _ = try await next.daemon.process.ended()
    let (status, text) = try await Self.verify(scene, [scene.path("audit.log")])
    #expect(status == 0 && text.contains("gap: process") && text.contains("it ended at once"), "\(text)")
  }

  @Test func `tells of a connection that a reload ends, and of what the API changes, and by whom`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), port = try scene.port()
    _ = try scene.write("other.pem", text: TestAuthority("Other").root.certificate.pem)
    let text = configuration(
      """
      audit_log \(scene.path("audit.log"));
      keyval_zone zone=z:64k; keyval $arg_x $found zone=z;
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        location / { return 200 in; } location /api/ { api write=on; ssl_client_allow cn=alice; } }
      """)
    let daemon = try await Sallyport.start(scene, text)
    let posted = try await scene.curl(
      cast.to(port) + cast.alice.curl + [
        "-X", "POST", "-d", "{\"a\":\"b\"}", "https://localhost/api/9/http/keyvals/z",
      ])
    #expect(posted.status == 201)
    let statuses = try await scene.ask(tls: port, identity: cast.alice) { client in
      let first = try client.get("/").status
      try daemon.rewrite(text.replacing("ssl_client_certificate ca.pem", with: "ssl_client_certificate other.pem"))
      daemon.signal(SIGHUP)
      while !daemon.errorLog.contains("generation 2") { usleep(10_000) }
      return (first, try? client.get("/").status)
    }
    #expect(statuses.0 == 200)
    try await until("the line of the end") { scene.text("audit.log").contains("\"event\":\"revocation\"") }
    let lines = scene.text("audit.log").split(separator: "\n")
    let change = lines.first { $0.contains("\"event\":\"change\"") } ?? ""
    #expect(change.contains("of keyval zone") && change.contains("CN=alice"), "\(change)")
    let end = lines.first { $0.contains("\"event\":\"revocation\"") } ?? ""
    #expect(end.contains("CN=alice") && end.contains("\"verdict\":\"closed\""), "\(end)")
  }
}
