import TestSupport
import Testing

/// Server blocks that share a listener and differ in whom they let in.
@Suite(.stagedOverBoth) struct `Client policy of neighbouring server blocks` {
  private func start(_ scene: Scene, _ servers: [(name: String, lines: String)]) async throws -> (
    daemon: Sallyport, port: UInt16
  ) {
    let port = try scene.port()
    let blocks = servers.map { name, lines in
      """
      server {
        listen 127.0.0.1:\(port) ssl; server_name \(name); ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate ca.pem; \(lines)
        location / { return 200 "$server_name $ssl_session_reused $ssl_client_s_dn_cn\\n"; }
      }
      """
    }
    return (try await Sallyport.start(scene, configuration(blocks.joined(separator: "\n"))), port)
  }

  private func ask(_ scene: Scene, _ port: UInt16, sni: String, host: String, _ identity: IdentityFiles?) async throws
    -> HTTPMessage
  {
    try await scene.ask(tls: port, name: sni, identity: identity) { try $0.get("/", host: host) }
  }

  @Test func `a Host under other rules than the handshake's is misdirected, under the same ones it is served`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let on = "ssl_verify_client on;"
    let (_, port) = try await start(
      scene,
      [
        ("free.test", on), ("a.test", on + "ssl_client_allow cn=alice; ssl_client_allow cn=bob;"),
        ("same.test", on + "ssl_client_allow cn=bob; ssl_client_allow cn=alice;"),
        ("less.test", on + "ssl_client_allow cn=alice;"),
        ("not.test", on + "ssl_client_allow cn=alice; ssl_client_allow cn=bob; ssl_client_deny cn=eve;"),
      ])
    for (sni, host, status) in [
      ("a.test", "a.test", 200), ("a.test", "same.test", 200), ("a.test", "less.test", 421),
      ("a.test", "not.test", 421), ("free.test", "a.test", 421), ("a.test", "free.test", 421),
      ("free.test", "A.Test", 421), ("FREE.test", "a.test", 421),
    ] {
      let answer = try await ask(scene, port, sni: sni, host: host, cast.alice)
      #expect(answer.status == status, "\(sni) to \(host)")
    }
  }

  @Test func `Caddy's issue 7920: a wildcard server's demand for certificates stays its own, in any case of SNI`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let (_, port) = try await start(
      scene, [("*.example.test", "ssl_verify_client on;"), ("open.example.test", "ssl_verify_client off;")])
    // Nobody is asked for a certificate under the exact name, and nobody gets behind the wildcard by it.
    for (sni, asks) in [("open.example.test", false), ("OPEN.Example.test", false), ("x.example.test", true)] {
      let result = try await scene.run(
        "openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", sni, "-tls1_2"], input: [])
      #expect(result.text.contains("Acceptable client certificate CA names") == asks, "\(sni)")
    }
    for (sni, host, identity, status) in [
      ("open.example.test", "open.example.test", nil, 200), ("open.example.test", "x.example.test", cast.alice, 421),
      ("OPEN.example.test", "X.EXAMPLE.test", cast.alice, 421), ("x.example.test", "x.example.test", nil, 400),
      ("X.Example.TEST", "x.example.test", nil, 400), ("X.Example.TEST", "y.example.test", cast.alice, 200),
      ("x.example.test", "open.example.test", cast.alice, 421),
    ] {
      let answer = try await ask(scene, port, sni: sni, host: host, identity)
      #expect(answer.status == status, "\(sni) to \(host)")
    }
  }

  @Test(.ofHTTP1, arguments: ["-tls1_2", "-tls1_3"]) func `a session crosses names in TLS 1.3 only, and rules never`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let on = "ssl_verify_client on;"
    let (_, port) = try await start(
      scene,
      [
        ("a.test", on + "ssl_client_allow cn=alice;"), ("same.test", on + "ssl_client_allow cn=alice;"),
        ("other.test", on + "ssl_client_allow cn=*;"),
      ])
    let file = scene.path("session.pem")
    func ask(_ name: String, _ session: [String]) async throws -> String {
      let request = Array("GET / HTTP/1.1\r\nHost: \(name)\r\nConnection: close\r\n\r\n".utf8)
      return try await scene.run(
        "openssl",
        ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", name, "-ign_eof", version] + cast.alice.openssl
          + session, input: request
      ).text
    }
    for (name, resumes) in [("a.test", true), ("same.test", version == "-tls1_3"), ("other.test", false)] {
      #expect(try await ask("a.test", ["-sess_out", file]).contains("a.test . alice"))
      let answer = try await ask(name, ["-sess_in", file])
      #expect(answer.contains("\(name) r alice") == resumes, "\(name)")
    }
  }
}
