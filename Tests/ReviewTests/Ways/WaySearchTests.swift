import ConfigurationSupport
import Crypto
@testable import Review
import TLS
import TestSupport
import Testing
@testable import Traffic
import Transport

/// The ways that settings say, before anybody has tried one.
@Suite struct `Ways of settings` {
  /// The ways to a content with these words, the weakest first.
  private func ways(_ text: String, to words: String? = nil) throws -> [Way] {
    let loaded = LoadedText(text)
    let http = try #require(loaded.settings?.http, "\(loaded.errors)")
    let ways = WaySearch(http).ways.filter { words == nil || $0.content.words.contains(words ?? "") }
    return ways.sorted { $0.openness < $1.openness }
  }

  private func server(_ lines: String) -> String { "events {} http { server { listen 80; \(lines) } }" }

  private static var nobody: WayClient { WayClient.nobody }

  @Test func `a location without conditions is open to anybody`() throws {
    let ways = try ways(server("location / { proxy_pass http://127.0.0.1:9; }"), to: "127.0.0.1:9")
    #expect(ways.count == 1)
    #expect(ways.first?.openness == .anybody)
    #expect(ways.first?.answer(to: Self.nobody) == .admits)
    #expect(ways.first?.hops == [])
  }

  @Test func `the address, the password and satisfy decide together`() throws {
    let guards = "allow 10.0.0.0/8; deny all; auth_basic a; auth_basic_user_file users;"
    var near = WayClient.nobody
    near.address = .ipv4(address: 0x0A00_0001, port: 1)
    var far = near
    far.address = .ipv4(address: 0x0B00_0001, port: 1)
    let both = try ways(server("location / { \(guards) proxy_pass http://127.0.0.1:9; }"), to: "127.0.0.1:9")
    #expect(both.map(\.openness) == [.password])
    #expect(both.first?.answer(to: near) == .refuses)
    near.lacks = []
    #expect(both.first?.answer(to: near) == .unknown)
    near.lacks = [.password]
    let either = try ways(
      server("location / { satisfy any; \(guards) proxy_pass http://127.0.0.1:9; }"), to: "127.0.0.1:9")
    #expect(either.map(\.openness) == [.address])
    #expect(either.first?.answer(to: near) == .admits)
    far.lacks = [.password]
    #expect(either.first?.answer(to: far) == .refuses)
  }

  @Test func `an error page of a refusal is a way for a client whom nobody has admitted`() throws {
    let text = """
      events {} http { server { listen 443 ssl; ssl_certificate s; ssl_certificate_key k;
        ssl_client_certificate ca; ssl_verify_client on; error_page 496 = @open;
        location / { proxy_pass http://127.0.0.1:9; }
        location @open { proxy_pass http://127.0.0.1:9; } } }
      """
    let ways = try ways(text, to: "127.0.0.1:9")
    let open = try #require(ways.first)
    #expect(open.openness == .anybody)
    #expect(open.entry == .refused([496]))
    #expect(open.hops.map(\.words) == ["error_page 496 @open"])
    #expect(open.answer(to: Self.nobody) == .admits)
    #expect(ways.last?.openness == .certificate)
    #expect(ways.last?.answer(to: Self.nobody) == .refuses)
  }

  @Test func `an internal location is reached by what leads there alone`() throws {
    let lead = "location /a { try_files /none /i; root /srv; allow 10.0.0.1; deny all; }"
    let inner = "location /i { internal; proxy_pass http://127.0.0.1:9; }"
    #expect(try ways(server("\(inner) location / { return 204; }"), to: "127.0.0.1:9").isEmpty)
    let guarded = try ways(server("\(inner) \(lead)"), to: "127.0.0.1:9")
    #expect(guarded.map(\.openness) == [.address])
    // A rewrite runs before the access phase.
    let rewritten = try ways(server("\(inner) location /a { deny all; rewrite ^ /i last; }"), to: "127.0.0.1:9")
    #expect(rewritten.map(\.openness) == [.anybody])
    #expect(rewritten.first?.hops.map(\.words) == ["rewrite ^"])
  }

  @Test func `subrequests skip the access phase, and the client gets nothing of them`() throws {
    let text = server(
      """
      location /auth { internal; deny all; proxy_pass http://127.0.0.1:8; }
      location / { auth_request /auth; proxy_pass http://127.0.0.1:9; }
      """)
    let asked = try ways(text, to: "127.0.0.1:8")
    // By X-Accel-Redirect it is no subrequest.
    #expect(asked.map(\.openness) == [.anybody, .nobody])
    #expect(asked.first?.isSubrequest == true)
    #expect(try ways(text, to: "127.0.0.1:9").map(\.openness) == [.unknown])
  }

  @Test func `an upstream can lead to internal locations, unless its word is ignored`() throws {
    let inner = "location /i { internal; root /srv/secret; }"
    let led = try ways(server("\(inner) location / { proxy_pass http://127.0.0.1:9; }"), to: "secret")
    #expect(led.first?.hops.map(\.words) == ["X-Accel-Redirect of the upstream"])
    let ignored = server(
      "\(inner) location / { proxy_ignore_headers X-Accel-Redirect; proxy_pass http://127.0.0.1:9; }")
    #expect(try ways(ignored, to: "secret").isEmpty)
  }

  @Test func `a block for other methods has conditions of its own`() throws {
    let ways = try ways(
      server("location / { limit_except GET { deny all; } proxy_pass http://127.0.0.1:9; }"), to: "127.0.0.1:9")
    #expect(ways.map(\.openness) == [.anybody, .nobody])
    var client = WayClient.nobody
    #expect(ways.map { $0.answer(to: client) } == [.admits, .refuses])
    client.method = "POST"
    #expect(ways.map { $0.answer(to: client) } == [.refuses, .refuses])
    client.method = nil
    #expect(ways.first?.answer(to: client) == .unknown)
  }

  @Test func `a condition on the verdict of the handshake is judged, and another variable is unknown`() throws {
    let lines = "ssl_certificate s; ssl_certificate_key k; ssl_client_certificate ca; ssl_verify_client optional;"
    func tls(_ inner: String) -> String {
      "events {} http { server { listen 443 ssl; \(lines) location / { \(inner) proxy_pass http://127.0.0.1:9; } } }"
    }
    let verdict = try ways(tls("if ($ssl_client_verify != SUCCESS) { return 403; }"), to: "127.0.0.1:9")
    let direct = try #require(verdict.first { $0.hops.isEmpty })
    #expect(direct.answer(to: Self.nobody) == .refuses)
    let other = try ways(tls("if ($arg_x) { return 403; }"), to: "127.0.0.1:9")
    #expect(other.first { $0.hops.isEmpty }?.answer(to: Self.nobody) == .unknown)
  }

  @Test func `a session passes to the listener of another block`() throws {
    let text = """
      events {}
      stream { server { listen 8443; allow 10.0.0.0/8; deny all; pass 127.0.0.1:8080; } }
      http { server { listen 127.0.0.1:8080; location / { proxy_pass http://127.0.0.1:9; } } }
      """
    let ways = try ways(text, to: "127.0.0.1:9")
    #expect(ways.map(\.openness) == [.anybody, .address])
    #expect(ways.last?.hops.map(\.words) == ["pass 127.0.0.1:8080"])
  }

  @Test func `a block that rejects handshakes is reached after the handshake of another one that judges clients alike`()
    throws
  {
    func text(_ verify: String) -> String {
      """
      events {} http {
        ssl_certificate s; ssl_certificate_key k;
        server { listen 443 ssl default_server; ssl_reject_handshake on; location / { proxy_pass http://127.0.0.1:9; } }
        server { listen 443 ssl; server_name a; \(verify) location / { return 204; } } }
      """
    }
    #expect(try ways(text(""), to: "127.0.0.1:9").map(\.openness) == [.anybody])
    let other = "ssl_client_certificate ca; ssl_verify_client on;"
    #expect(try ways(text(other), to: "127.0.0.1:9").map(\.openness) == [.nobody])
  }

  @Test
  func `a rule on certificates lets nobody in where none can be shown, even if refusals are only reported over TLS`()
    throws
  {
    func text(_ lines: String) -> String {
      """
      events {} http { server { listen 127.0.0.1:443 ssl; listen 127.0.0.1:80; ssl_certificate s; ssl_certificate_key k;
        ssl_client_certificate ca; ssl_verify_client on; \(lines)
        location / { ssl_client_allow cn=a; proxy_pass http://127.0.0.1:9; } } }
      """
    }
    let all = try ways(text("ssl_verify_report_only on;"), to: "127.0.0.1:9")
    #expect(all.map(\.openness) == [.anybody, .nobody])
    #expect(all.map { $0.answer(to: Self.nobody) } == [.admits, .refuses])
    #expect(all.last?.gates.last?.words.last?.hasSuffix("which nobody can show at this listener") == true)
    // A front shows those of its clients, and who is none has no certificate there.
    let relayed = text("real_client_cert_from 10.0.0.0/8; real_client_cert_header Client-Cert rfc9440;")
    let plain = try #require(try ways(relayed, to: "127.0.0.1:9").last)
    #expect(plain.openness == .rules && plain.answer(to: Self.nobody) == .refuses)
    // A listener without TLS has no handshake that is rejected.
    let rejecting = """
      events {} http { server { listen 127.0.0.1:443 ssl; listen 127.0.0.1:80; ssl_certificate s; ssl_certificate_key k;
        ssl_client_certificate ca; ssl_verify_client optional; ssl_reject_handshake on;
        real_client_cert_from 10.0.0.0/8; real_client_cert_header Client-Cert rfc9440;
        location / { proxy_pass http://127.0.0.1:9; } } }
      """
    #expect(try ways(rejecting, to: "127.0.0.1:9").map(\.openness) == [.anybody, .nobody])
  }

  @Test func `limits are told, and make nobody somebody else`() throws {
    let limits = "limit_req_zone $uri zone=r:1m rate=90r/m; limit_conn_zone $uri zone=c:1m;"
    func text(_ lines: String) -> String {
      "events {} http { \(limits) server { listen 80; location / { \(lines) satisfy any; limit_req zone=r;"
        + " limit_conn c 3; allow 10.0.0.0/8; deny all; auth_basic a; auth_basic_user_file users;"
        + " proxy_pass http://127.0.0.1:9; } } }"
    }
    let way = try #require(try ways(text(""), to: "127.0.0.1:9").first)
    #expect(way.openness == .address && way.answer(to: Self.nobody) == .unknown)
    let words = way.gates.flatMap(\.words)
    #expect(words.contains("at most 90 requests per minute for each $uri (limit_req zone=r)"), "\(words)")
    #expect(words.contains("at most 3 at a time for each $uri (limit_conn c)"), "\(words)")
    let dry = try ways(text("limit_req_dry_run on; limit_conn_dry_run on;"), to: "127.0.0.1:9")
    #expect(dry.first?.gates.flatMap(\.words).contains { $0.hasPrefix("at most") } == false)
  }

  @Test func `what changes the configuration while it serves says what it opens`() throws {
    func opens(_ lines: String) throws -> [String] {
      try ways(server("location /api/ { \(lines) }")).flatMap(\.location.ways.opens)
    }
    #expect(try opens("api;").isEmpty)
    #expect(try !opens("api write=on; allow 127.0.0.1; deny all;").isEmpty)
  }

  @Test func `circles of leads end`() throws {
    let text = server(
      """
      error_page 404 /a;
      location /a { internal; rewrite ^ /b last; } location /b { internal; rewrite ^ /a last; }
      location @n { try_files /x @m; root /s; } location @m { try_files /x @n; root /s; }
      location / { error_page 403 @n; root /s; }
      """)
    #expect(try !ways(text).isEmpty)
  }
}

/// Ways that somebody has gone in a trial.
@Suite struct `Ways with a witness` {
  private func configuration(_ scene: Scene) throws -> (path: String, authority: TestAuthority) {
    let authority = try scene.serverFiles()
    let path = try scene.write(
      "w.conf",
      text: """
        events {} http {
          server { listen 127.0.0.1:8443 ssl; server_name a.test; \(Scene.tls) ssl_verify_client on;
            location /rule { ssl_client_allow cn=boss o=x*; proxy_pass http://127.0.0.1:1; }
            location /closed { deny all; proxy_pass http://127.0.0.1:2; }
            location / { proxy_pass http://127.0.0.1:5; } }
          server { listen 127.0.0.1:8444 ssl; server_name b.test; ssl_certificate spiffe:; ssl_client_certificate spiffe:;
            ssl_verify_client on; ssl_client_allow uri=spiffe://*/ns/**/job; location / { proxy_pass http://127.0.0.1:3; } }
          server { listen 127.0.0.1:8080; server_name c.test; ssl_client_certificate ca.pem; ssl_verify_client on;
            real_client_cert_from 10.0.0.0/8; real_client_cert_header Client-Cert rfc9440;
            location / { proxy_pass http://127.0.0.1:4; } } }
        """)
    return (path, authority)
  }

  @Test func `are those that a client can go, and no other`() throws {
    try withScene { scene in
      let ways = try Ways(configuration(scene).path)
      func seen(_ upstream: Int) -> [String?] {
        ways.destinations.filter { $0.words.contains("127.0.0.1:\(upstream)") }.flatMap {
          $0.ways.map { $0.witness?.words }
        }
      }
      #expect(seen(1).contains { $0?.contains("with a certificate CN=boss,O=xx of ") == true }, "\(seen(1))")
      #expect(seen(2) == [nil])
      #expect(seen(3).contains { $0?.contains("spiffe://x/ns/x/job of spiffe://x") == true }, "\(seen(3))")
      #expect(seen(4).contains { $0?.contains("which the front relays from 10.") == true }, "\(seen(4))")
    }
  }

  @Test func `a text is seen that comes with the status of the error page that leads to it`() throws {
    try withScene { scene in
      func seen(_ page: String) throws -> [String?] {
        let path = try scene.write(
          "page.conf",
          text: "events {} http { server { listen 127.0.0.1:8080; error_page 403 /page; location / { deny all; }"
            + " location /page { internal; \(page) } } }")
        return try Ways(path).destinations.filter { $0.words.hasPrefix("return 200") }.flatMap {
          $0.ways.map { $0.witness?.outcome.words }
        }
      }
      let shown = try seen("return 200 text;")
      #expect(shown == ["the response is 403"])
      // An `if` behind which nobody gets the text.
      let hidden = try seen("if ($uri = /x) { return 200 text; } return 404;")
      #expect(hidden == [nil])
      let none = try seen("return 404; return 200 text;")
      #expect(none == [])
    }
  }

  @Test func `of one client are those that its own certificate opens`() throws {
    try withScene { scene in
      let (path, authority) = try configuration(scene)
      func reached(_ who: String) throws -> [Int] {
        let ways = try Ways(path, Ways.Selection(who: who))
        return (1...5).filter { port in ways.destinations.contains { $0.words.contains("127.0.0.1:\(port)") } }
      }
      let alice = try scene.identity("alice", authority.client()).certificate
      let boss = try scene.identity(
        "boss",
        CertificateBuilder(commonName: "boss", .leaf([.clientAuth])).signed(by: authority.root, key: .generate())
      ).certificate
      let stranger = try scene.identity("stranger", TestAuthority("Others").client()).certificate
      // Behind the front, too.
      #expect(try reached(alice) == [4, 5] && reached(boss) == [4, 5])
      #expect(try reached("CN=boss,O=xyz") == [1, 4, 5])
      #expect(try reached(stranger) == [] && reached("nobody") == [])
      #expect(try reached("spiffe://fed/ns/a/job") == [3] && reached("spiffe://fed/web") == [])
    }
  }
}
