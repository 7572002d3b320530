import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `Session resumption` {
  static let versions = ["-tls1_2", "-tls1_3"]
  static let stores = [
    "", "ssl_session_cache shared:sessions:1m; ssl_session_tickets off;", "ssl_session_cache shared:sessions:1m;",
  ]
  private static let answer =
    #"location / { return 200 "reused=$ssl_session_reused verify=$ssl_client_verify dn=$ssl_client_s_dn\n"; }"#

  /// One request over openssl s_client; the session goes to and comes from a file.
  private func ask(
    _ scene: Scene, _ port: UInt16, _ name: String, _ version: String, identity: IdentityFiles?, _ session: [String]
  ) async throws -> ToolResult {
    try await scene.run(
      "openssl",
      ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", name, "-ign_eof", version]
        + (identity?.openssl ?? []) + session,
      input: Array("GET / HTTP/1.1\r\nHost: \(name)\r\nConnection: close\r\n\r\n".utf8))
  }

  @Test(arguments: versions, stores) func `a session is resumed, and still knows the client`(
    version: String, store: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      configuration(
        "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(store) \(Self.answer) }",
        main: ""))
    let file = scene.path("session.pem")
    let first = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_out", file])
    #expect(first.text.contains("reused=. verify=SUCCESS dn=CN=alice"))
    // Either worker may accept: with stateful sessions both must find it.
    for _ in 0..<4 {
      let again = try await ask(
        scene, port, "localhost", version, identity: cast.alice, ["-sess_in", file, "-sess_out", file])
      #expect(again.text.contains("reused=r verify=SUCCESS dn=CN=alice"))
    }
  }

  @Test(arguments: versions) func `without tickets and cache nothing is resumed`(version: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_session_cache off;
          ssl_session_tickets off; \(Self.answer) }
        """))
    let file = scene.path("session.pem")
    _ = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_out", file])
    guard !scene.bytes("session.pem").isEmpty else { return }
    let again = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_in", file])
    #expect(again.text.contains("reused=. verify=SUCCESS"))
  }

  @Test(arguments: versions, stores) func `CVE-2025-23419: a session never crosses into a stricter server block`(
    version: String, store: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let other = try TestAuthority("Other")
    try scene.anchors("other", other)
    let port = try scene.port()
    let material = "ssl_certificate server.pem; ssl_certificate_key server.key; \(store) \(Self.answer)"
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl; server_name open.test; \(material) }
        server { listen 127.0.0.1:\(port) ssl; server_name maybe.test; \(material)
          ssl_client_certificate ca.pem; ssl_verify_client optional; }
        server { listen 127.0.0.1:\(port) ssl; server_name a.test; \(material)
          ssl_client_certificate ca.pem; ssl_verify_client on; }
        server { listen 127.0.0.1:\(port) ssl; server_name b.test; \(material)
          ssl_client_certificate other.pem; ssl_verify_client on; }
        server { listen 127.0.0.1:\(port) ssl; server_name unchecked.test; \(material)
          ssl_client_certificate ca.pem; ssl_verify_client optional_no_ca; }
        """))
    let file = scene.path("session.pem")
    for (from, identity, to) in [
      ("open.test", nil, "a.test"), ("maybe.test", nil, "a.test"), ("a.test", cast.alice, "b.test"),
      ("unchecked.test", cast.alice, "b.test"),
    ] {
      let first = try await ask(scene, port, from, version, identity: identity, ["-sess_out", file])
      #expect(first.text.contains("HTTP/1.1 200"))
      let crossed = try await ask(scene, port, to, version, identity: nil, ["-sess_in", file])
      #expect(!crossed.text.contains("HTTP/1.1 200"), "\(from) to \(to)")
      #expect(!crossed.text.contains("Reused"), "\(from) to \(to)")
      try scene.write("session.pem", [])
    }
  }

  @Test(arguments: versions) func `a session is not resumed after a reload took away its CA`(version: String)
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) \(Self.answer) }")
    )
    let file = scene.path("session.pem")
    let first = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_out", file])
    #expect(first.text.contains("verify=SUCCESS"))
    try scene.anchors("ca", TestAuthority("New"))
    daemon.signal(SIGHUP)
    try await until("the reload to count") {
      let result = try await ask(scene, port, "localhost", version, identity: cast.alice, [])
      return result.text.contains("400 Bad Request")
    }
    let again = try await ask(scene, port, "localhost", version, identity: cast.alice, ["-sess_in", file])
    #expect(!again.text.contains("verify=SUCCESS"))
  }

  @Test(arguments: versions)
  func `CVE-2024-2511: sessions that nobody resumes take no more memory than the store's bound`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
          ssl_session_cache shared:sessions:1m; ssl_session_timeout 1d; \(Self.answer) }
        """))
    // Each a connection and a full handshake of its own, which leaves a session behind.
    func shake(_ count: Int) async throws {
      let result = try await scene.curl(
        cast.to(port) + cast.alice.curl + [
          "--no-sessionid", "-H", "Connection: close", version == "-tls1_2" ? "--tls-max" : "--tlsv1.3",
        ] + (version == "-tls1_2" ? ["1.2"] : []) + ["https://localhost/[1-\(count)]"])
      #expect(result.status == 200)
    }
    try await shake(400)
    guard ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil, let before = daemon.memory("VmRSS") else {
      return
    }
    // 12 KiB each: unbounded they would be 14 MiB.
    for _ in 0..<3 { try await shake(400) }
    let after = try #require(daemon.memory("VmRSS"))
    #expect(after - before < 4096, "\(before) to \(after) KiB")
  }
}
