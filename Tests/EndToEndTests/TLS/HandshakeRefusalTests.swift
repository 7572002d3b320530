import Crypto
import Synchronization
import TestSupport
import Testing

@Suite(.staged) struct `Refusal in the handshake` {
  static let versions = ["-tls1_2", "-tls1_3"]

  private func start(_ scene: Scene, verify: String = "on", _ lines: String) async throws -> MutualProxy {
    try await MutualProxy(scene, verify: verify, server: "ssl_verify_reject handshake; \(lines)")
  }

  private func ask(
    _ scene: Scene, _ port: UInt16, _ version: String, _ identity: IdentityFiles?, _ more: [String] = []
  ) async throws -> ToolResult {
    try await scene.run(
      "openssl",
      ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-ign_eof", version]
        + (identity?.openssl ?? []) + more,
      input: Array("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
  }

  @Test(arguments: versions) func `a bad, missing or denied certificate is an alert, and nothing of HTTP`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await start(scene, "ssl_client_allow cn=alice;")
    #expect(try await ask(scene, front.port, version, cast.alice).text.contains("HTTP/1.1 200"))
    let expired = try scene.identity("expired", cast.authority.client(.expired))
    let stranger = try scene.identity("stranger", TestAuthority("Other").client())
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    for (identity, alert) in [
      (expired, "alert certificate expired"), (stranger, "alert unknown ca"), (bob, "alert bad certificate"),
      (nil, version == "-tls1_3" ? "alert certificate required" : "alert handshake failure"),
    ] {
      let result = try await ask(scene, front.port, version, identity)
      #expect(result.everything.contains(alert), "\(identity?.certificate ?? "none")")
      #expect(!result.text.contains("HTTP/1.1"))
    }
    #expect(front.upstream.connections == 1)
    try await front.daemon.logged("[error]", "access forbidden by rule at", "CN=bob", "while SSL handshaking")
    try await front.daemon.logged("[notice]", "certificate verify failed", "while SSL handshaking")
  }

  @Test(arguments: versions) func `an optional certificate may be missing, unless a rule of the server asks for it`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let lax = try await start(scene, verify: "optional", "ssl_client_deny cn=bob;")
    #expect(try await ask(scene, lax.port, version, nil).text.contains("HTTP/1.1 200"))
    #expect(try await ask(scene, lax.port, version, cast.alice).text.contains("HTTP/1.1 200"))
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    #expect(try await ask(scene, lax.port, version, bob).everything.contains("alert bad certificate"))
  }

  @Test(arguments: versions) func `a rule of the server asks for an optional certificate`(version: String) async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let strict = try await start(scene, verify: "optional", "ssl_client_allow cn=alice;")
    #expect(try await ask(scene, strict.port, version, cast.alice).text.contains("HTTP/1.1 200"))
    let result = try await ask(scene, strict.port, version, nil)
    #expect(result.everything.contains("alert") && !result.text.contains("HTTP/1.1"))
  }

  @Test(arguments: versions) func `a denied client that is called "http request" gets an alert and no page`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await start(scene, "ssl_client_allow cn=alice;")
    let seen = Mutex<[UInt8]>([])
    let relay = try ScriptedUpstream.relay(scene, to: front.port) { bytes in seen.withLock { $0 += bytes } }
    let odd = try scene.identity("odd", cast.authority.client(commonName: "http request"))
    let result = try await ask(scene, relay.port, version, odd)
    #expect(result.everything.contains("alert bad certificate"))
    try await front.daemon.logged("[error]", "no ssl_client_allow matches \"CN=http request,")
    #expect(!String(decoding: seen.withLock { $0 }, as: UTF8.self).contains("HTTP/1.1"))
  }

  @Test(arguments: versions) func `who was let in resumes`(version: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await start(scene, "ssl_client_allow cn=alice;")
    let file = scene.path("session.pem")
    #expect(try await ask(scene, front.port, version, cast.alice, ["-sess_out", file]).text.contains("HTTP/1.1 200"))
    let again = try await ask(scene, front.port, version, nil, ["-sess_in", file])
    #expect(again.text.contains("Reused") && again.text.contains("HTTP/1.1 200"))
  }
}
