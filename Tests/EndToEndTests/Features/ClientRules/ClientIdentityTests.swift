import Bytes
import Crypto
import Foundation
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `Who a client is, told to the upstream` {
  private func start(
    _ scene: Scene, _ lines: String, verify: String = "on", location: String = ""
  ) async throws -> MutualProxy {
    try await MutualProxy(
      scene, verify: verify, server: "underscores_in_headers on; ignore_invalid_headers off; \(lines)",
      location: location,
      locations: """
        location / { proxy_pass UPSTREAM; proxy_http_version 1.1; LINES }
        location /own/ { proxy_pass UPSTREAM; proxy_set_header X-Other here; }
        location /off/ { proxy_pass UPSTREAM; client_identity off; }
        """)
  }

  private func expected(_ certified: CertifiedKey) -> (leaf: String, chain: String) {
    (
      "Client-Cert: :\(Base64.encode(certified.certificate.der)):",
      "Client-Cert-Chain: \(certified.chain.map { ":\(Base64.encode($0.der)):" }.joined(separator: ", "))"
    )
  }

  @Test(.ofHTTP1, arguments: ["-tls1_2", "-tls1_3"]) func `RFC 9440: leaf and verified chain, after resumption too`(
    version: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await start(scene, "client_identity rfc9440; ssl_client_allow issuer=CN=*Intermediate;")
    let bob = try scene.identity("bob", cast.authority.client(.viaIntermediate, commonName: "bob"))
    let expected = expected(bob.certified)
    let file = scene.path("session.pem")
    for session in [["-sess_out", file], ["-sess_in", file, "-sess_out", file], ["-sess_in", file]] {
      let result = try await scene.run(
        "openssl",
        ["s_client", "-connect", "127.0.0.1:\(front.port)", "-servername", "localhost", "-ign_eof", version]
          + bob.openssl + session,
        input: Array("GET /head HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
      #expect(result.text.contains(session.contains("-sess_in") ? "Reused" : "New,"))
      #expect(result.text.contains(expected.leaf) && result.text.contains(expected.chain))
    }
    #expect(front.upstream.receivedText.split(whereSeparator: \.isNewline).count { $0.hasPrefix("Client-Cert") } == 6)
  }

  @Test func `Envoy's field has what openssl says`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await start(scene, "client_identity xfcc;")
    let result = try await scene.curl(cast.to(front.port) + cast.alice.curl + ["https://localhost/head"])
    let field = try #require(HTTPMessage(head: Array(result.text.utf8))["X-Forwarded-Client-Cert"])
    let leaf = cast.alice.certified.certificate
    #expect(field.hasPrefix("Hash=\(Hex.encode(leaf.sha256));Cert=\"-----BEGIN%20CERTIFICATE-----%0A"))
    let pairs = field.split(separator: ";").map { $0.split(separator: "=", maxSplits: 1).map(String.init) }
    #expect(pairs[1][1].dropFirst().dropLast().removingPercentEncoding == leaf.pem)
    #expect(pairs[2][1] == pairs[1][1])
    #expect(
      pairs[3...].map { $0.joined(separator: "=") } == [
        #"Subject="CN=alice,O=Example \+ Sons,C=SE""#, "DNS=alice.example",
      ])
  }

  static let aliases = [
    "Client-Cert", "client-cert", "CLIENT_CERT", "Client.Cert", "client_Cert.chain", "Client-Cert-Chain",
    "X-Forwarded-Client-Cert", "x_forwarded_client_cert", "X.Forwarded-Client_Cert",
  ]

  @Test(arguments: ["rfc9440", "xfcc"]) func `CVE-2026-39858: no client says who it is, under no spelling`(
    form: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await start(
      scene, "client_identity \(form);", verify: "optional", location: "proxy_request_buffering off;")
    let forged = Self.aliases.flatMap { ["-H", "\($0): forged"] }
    for (path, identity) in [("/head", nil), ("/head", cast.alice), ("/own/head", nil), ("/off/head", nil)] {
      let result = try await scene.curl(
        cast.to(front.port) + (identity?.curl ?? []) + forged + ["-H", "X-Stays: yes", "https://localhost\(path)"])
      #expect(result.status == 200, "\(path)")
    }
    // Nor after the body.
    let answer = try await scene.ask(tls: front.port, identity: cast.alice) { client in
      try client.begin("POST", "/", [("TE", "trailers")], body: .open)
      try client.send("hi")
      try client.end(trailers: Self.aliases.map { ($0, "forged") } + [("X-Stays", "yes")])
      return try client.response()
    }
    #expect(answer.status == 200)
    let received = front.upstream.receivedText
    #expect(!received.contains("forged"))
    #expect(received.components(separatedBy: scene.sent("X-Stays: yes")).count == 6)
    let own = form == "xfcc" ? "X-Forwarded-Client-Cert: Hash=" : "Client-Cert: :"
    #expect(received.components(separatedBy: own).count == 3)
  }

  @Test(arguments: ["X-Client-DN", "X_Client_DN", "x.client.dn", "X.Client_DN", "x-CLIENT-dn"])
  func `GHSA-f59h-q822-g45g: a field set from TLS is taken from clients in every location of the server`(
    alias: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await start(
      scene, "set $who $ssl_client_s_dn_cn;",
      location: "proxy_set_header X-Client-DN $ssl_client_s_dn; proxy_set_header X-Who $who;")
    for path in ["/head", "/own/head"] {
      let result = try await scene.curl(
        cast.to(front.port) + cast.alice.curl
          + ["-H", "\(alias): forged", "-H", "x_who: forged", "-H", "X-Stays: yes", "https://localhost\(path)"])
      #expect(result.status == 200)
    }
    #expect(!front.upstream.receivedText.contains("forged"))
    #expect(front.upstream.receivedText.components(separatedBy: scene.sent("X-Stays: yes")).count == 3)
  }

  /// stunnel's `redirect`: whom verification failed goes on, elsewhere.
  @Test func `CVE-2021-20230: who did not verify may be shown a page, but is nobody there and passes no rule`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    func server(_ name: String, _ lines: String) -> String {
      """
      server {
        listen 127.0.0.1:\(port) ssl; server_name \(name); ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate ca.pem; ssl_verify_client on; \(lines) error_page 495 496 =200 @page;
        location / { return 200 in; }
        location @page { proxy_pass http://127.0.0.1:\(upstream.port); client_identity rfc9440;
          proxy_set_header X-Verify $ssl_client_verify; }
      }
      """
    }
    _ = try await Sallyport.serve(
      scene,
      [("a.test", ""), ("b.test", "ssl_client_allow cn=**;"), ("c.test", "ssl_client_deny cn=bob;")]
        .map { server($0.0, $0.1) }.joined(separator: "\n"))
    let expired = try scene.identity("expired", cast.authority.client(.expired))
    for identity in [expired, nil] {
      let curl = cast.to(port) + (identity?.curl ?? [])
      let page = try await scene.curl(curl + ["https://a.test/head"])
      #expect(page.status == 200)
      #expect(page.text.contains(identity == nil ? "X-Verify: NONE" : "X-Verify: FAILED:certificate has expired"))
      #expect(!page.text.contains("Client-Cert"))
      #expect(try await scene.curl(curl + ["https://b.test/head"]).status == 403)
      #expect(try await scene.curl(curl + ["https://c.test/head"]).status == (identity == nil ? 200 : 403))
    }
    #expect(upstream.requests("GET") == 3)
  }
}
