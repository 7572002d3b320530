import Foundation
import TestSupport
import Testing

/// `sallyport check --explain` beside the daemon: the same configuration, the same request, the same outcome.
@Suite(.staged) struct `The explanation of a request` {
  /// A request of the table: the path, the words for curl beyond it, and those for `--explain`.
  struct Case: Sendable {
    var url: String
    var method = "GET"
    /// Whose certificate the client shows; nil: none.
    var shows: String? = "alice"
    var fields: [String] = []
  }

  private static let cases: [Case] = [
    Case(url: "https://a.test/"), Case(url: "https://a.test/", shows: nil),
    Case(url: "https://a.test/", shows: "mallory"),
    Case(url: "https://b.test/"), Case(url: "https://x.wild.test/"), Case(url: "https://www.tail.example/"),
    Case(url: "https://r42.test/"), Case(url: "https://unknown.test/"), Case(url: "https://a.test/api/v1"),
    Case(url: "https://a.test/api"), Case(url: "https://a.test/exact"), Case(url: "https://a.test/exact/"),
    Case(url: "https://a.test/img/x.png"), Case(url: "https://a.test/static/x.png"),
    Case(url: "https://a.test/static/inner/x"), Case(url: "https://a.test/alice"), Case(url: "https://a.test/bob"),
    Case(url: "https://a.test/bob", shows: nil), Case(url: "https://a.test/here"),
    Case(url: "https://a.test/elsewhere"),
    Case(url: "https://a.test/secret"),
    Case(url: "https://a.test/secret", fields: ["Authorization: Basic YWxpY2U6d29uZGVybGFuZA=="]),
    Case(url: "https://a.test/either"), Case(url: "https://a.test/internal"), Case(url: "https://a.test/old/page?x=1"),
    Case(url: "https://a.test/moved"), Case(url: "https://a.test/text"), Case(url: "https://a.test/if?go=1"),
    Case(url: "https://a.test/if?go=2"), Case(url: "https://a.test/error"), Case(url: "https://a.test/get-only"),
    Case(url: "https://a.test/get-only", method: "POST"), Case(url: "https://a.test/nothing"),
    Case(url: "https://a.test/status"), Case(url: "https://a.test/mapped", fields: ["X-Kind: new"]),
    Case(url: "https://a.test/mapped"), Case(url: "https://a.test//api//v1/../v2"),
    Case(url: "https://a.test/%61pi/x"), Case(url: "https://a.test/agent", fields: ["User-Agent: BadBot/1"]),
    Case(url: "https://a.test/real", fields: ["X-Forwarded-For: 192.0.2.7"]),
    Case(url: "https://a.test/real", fields: ["X-Forwarded-For: 198.51.100.7"]),
    Case(url: "https://a.test/", fields: ["Host: other.test"]),
    Case(url: "https://a.test/", fields: ["Host: open.test"]),
    Case(url: "https://open.test/", shows: nil), Case(url: "https://open.test/deep", shows: nil),
    Case(url: "https://a.test/loop"), Case(url: "https://a.test/limited"), Case(url: "https://a.test/slow/x"),
  ]

  private func text(_ port: UInt16, _ upstream: UInt16) -> String {
    configuration(
      """
      map $http_x_kind $kind { new 1; default 0; }
      limit_req_zone $server_name zone=r:1m rate=1000r/s;
      add_header X-Where $server_name always;
      server { listen 127.0.0.1:\(port) ssl; server_name default.test; \(Cast.tls) return 200 default; }
      server { listen 127.0.0.1:\(port) ssl; server_name b.test; \(Cast.tls) location / { return 200 b; } }
      server { listen 127.0.0.1:\(port) ssl; server_name *.wild.test; \(Cast.tls) location / { return 200 w; } }
      server { listen 127.0.0.1:\(port) ssl; server_name www.tail.*; \(Cast.tls) location / { return 200 t; } }
      server { listen 127.0.0.1:\(port) ssl; server_name ~^r[0-9]+[.]test$; \(Cast.tls) location / { return 200 r; } }
      server { listen 127.0.0.1:\(port) ssl; server_name open.test; \(Cast.tls(verify: "off"))
        location / { return 200 open; } location /deep { proxy_pass http://127.0.0.1:\(upstream); } }
      server {
        listen 127.0.0.1:\(port) ssl; server_name a.test; \(Cast.tls)
        if ($http_user_agent ~ BadBot) { return 403; }
        location / { proxy_pass http://127.0.0.1:\(upstream); }
        location /api/ { proxy_pass http://127.0.0.1:\(upstream)/v0/; }
        location = /exact { return 200 exact; }
        location ~ [.]png$ { return 200 png; }
        location ^~ /static/ { return 200 static; location /static/inner/ { return 201 inner; } }
        location /alice { ssl_client_allow cn=alice; return 200 alice; }
        location /bob { ssl_client_allow cn=bob; return 200 bob; }
        location /here { allow 127.0.0.1; deny all; proxy_pass http://127.0.0.1:\(upstream); }
        location /elsewhere { deny 127.0.0.0/8; proxy_pass http://127.0.0.1:\(upstream); }
        location /secret { auth_basic s; auth_basic_user_file users; proxy_pass http://127.0.0.1:\(upstream); }
        location /either {
          satisfy any; allow 127.0.0.1; deny all; auth_basic s; auth_basic_user_file users;
          proxy_pass http://127.0.0.1:\(upstream);
        }
        location /internal { internal; return 200 x; }
        location /old/ { rewrite ^/old/(.*)$ /api/$1 last; }
        location /moved { return 301 https://b.test/; }
        location /text { return 200 "text of $host"; }
        location /if { if ($arg_go = 1) { return 202 went; } proxy_pass http://127.0.0.1:\(upstream); }
        location /error { error_page 418 = @handled; return 418; }
        location @handled { return 203 handled; }
        location /get-only { limit_except GET { deny all; } proxy_pass http://127.0.0.1:\(upstream); }
        location /nothing { }
        location /status { stub_status; }
        location /mapped { if ($kind) { return 201 new; } return 200 old; }
        location /real {
          set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; allow 192.0.2.0/24; deny all;
          proxy_pass http://127.0.0.1:\(upstream);
        }
        location /loop { rewrite ^ /loop last; }
        location /limited { limit_req zone=r; proxy_pass http://127.0.0.1:\(upstream); }
        location /slow/ { set $x $arg_y; if (-f /nowhere) { return 500; } proxy_pass http://127.0.0.1:\(upstream); }
      }
      """)
  }

  @Test func `says the server block, the location and the status of the daemon, for a table of requests`() async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let names = ["a.test", "b.test", "x.wild.test", "www.tail.example", "r42.test", "unknown.test", "open.test"]
    _ = try scene.identity("server", cast.authority.server(names: names))
    _ = try scene.identity("mallory", TestAuthority("Other").client())
    try scene.write("users", text: "alice:{PLAIN}wonderland\n")
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    _ = try await Sallyport.start(scene, text(port, upstream.port))
    #expect(Self.cases.count >= 40)
    for one in Self.cases {
      let shown = one.shows.map { ["--cert", scene.path("\($0).pem"), "--key", scene.path("\($0).key")] } ?? []
      let fields = one.fields.flatMap { ["-H", $0] }
      let real = try await scene.curl(cast.to(port) + shown + fields + ["-X", one.method, one.url, "--path-as-is"])
      let url = one.url.replacing(".test/", with: ".test:\(port)/").replacing(".example/", with: ".example:\(port)/")
      let words =
        ["check", "--config", scene.path("sallyport.conf"), "--explain", "\(one.method) \(url)"]
        + (one.shows.map { ["--cert", scene.path("\($0).pem")] } ?? []) + one.fields.flatMap { ["--header", $0] }
      let told = try await scene.run(Sallyport.binary(), words)
      let lines = told.text.split(separator: "\n").map { $0.split(separator: " ", maxSplits: 1).map(String.init) }
      let statuses = lines.filter { $0.first == "status" }.compactMap {
        $0.last.map { $0.trimmingCharacters(in: .whitespaces) }
      }
      #expect(statuses.last == "\(real.status)", "\(one): \(told.everything) \(real.heads)")
      let servers = lines.filter { $0.first == "server" }.compactMap {
        $0.last?.split(separator: " ").first.map(String.init)
      }
      if let place = real.response["X-Where"] {
        // The page of a 421 is of the block that judged the client in its handshake.
        #expect((real.status == 421 ? "a.test" : servers.last) == place, "\(one): \(told.text)")
      }
    }
    // Nobody was contacted by an explanation: each of the echo's requests is one of curl's.
    #expect(scene.text("error.log").contains("[crit]") == false)
  }

  @Test func `tells which rule decides, by its place, and what the upstream gets`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try scene.port()
    let conf = try scene.write(
      "x.conf",
      text: """
        events {}
        http { server {
          listen 127.0.0.1:\(port) ssl; server_name a.test; \(Cast.tls)
          ssl_client_allow cn=alice;
          ssl_client_deny cn=bob;
          location / {
            deny 10.0.0.0/8;
            allow all;
            proxy_pass https://127.0.0.1:9; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.test;
            proxy_set_header X-DN $ssl_client_s_dn;
            add_header X-Added yes;
          }
        } }
        """)
    func explain(_ more: String...) async throws -> String {
      let words = ["check", "--config", conf, "--explain", "GET https://a.test:\(port)/x?y=1"] + more
      let result = try await scene.run(Sallyport.binary(), words)
      #expect(result.status == 0, "\(result.everything)")
      return result.text.split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") }.joined(
        separator: "\n")
    }
    let alice = try await explain("--cert", scene.path("alice.pem"))
    for line in [
      "listener 127.0.0.1:\(port) ssl \(conf):3:", "server a.test \(conf):2:8 its server_name is the Host \"a.test\"",
      "client CN=alice,O=Example \\+ Sons,C=SE: verified by the CA CN=Test Root",
      "location / \(conf):7:3 is the longest prefix of \"/x\"",
      "rule ssl_client_allow cn=alice \(conf):5:3 admits the client", "rule allow all \(conf):9:5 decides on 127.0.0.1",
      "upstream https://127.0.0.1:9: one of 127.0.0.1:9", "name must be up.test", "anchor CN=Test Root",
      "sends GET /x?y=1 HTTP/1.1", "field X-DN: CN=alice", "field X-Added: yes",
    ] { #expect(alice.contains(line), "\(line) in \(alice)") }
    let far = try await explain("--cert", scene.path("alice.pem"), "--from", "10.1.2.3")
    #expect(far.contains("rule deny 10.0.0.0/8 \(conf):8:5 decides on 10.1.2.3"), "\(far)")
    #expect(far.contains("status 403") && !far.contains("upstream "), "\(far)")
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    _ = bob
    let denied = try await explain("--cert", scene.path("bob.pem"))
    #expect(denied.contains("log access forbidden by rule at \(conf):6:3: ssl_client_deny cn=bob"), "\(denied)")
    let nobody = try await explain()
    #expect(nobody.contains("client shows no certificate (ssl_verify_client on)\n"), "\(nobody)")
    #expect(nobody.contains("status 400"), "\(nobody)")
  }

  @Test func `names the file of the passwords that it takes as right`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("users", text: "alice:{PLAIN}x\n")
    let conf = try scene.write(
      "x.conf",
      text: """
        events {} http { server { listen 127.0.0.1:8099; auth_basic s; auth_basic_user_file users;
          location /named { auth_basic_user_file per/$arg_a; proxy_pass http://127.0.0.1:9; }
          location /fixed { proxy_pass http://127.0.0.1:9; } } }
        """)
    for (path, file) in [("fixed", "users"), ("named", "the file that the request names")] {
      let words = [
        "check", "--config", conf, "--explain", "GET http://127.0.0.1:8099/\(path)", "--header",
        "Authorization: Basic YWxpY2U6eA==",
      ]
      let told = try await scene.run(Sallyport.binary(), words).text
      #expect(told.contains(" \(file) for the password of \"alice\"; taken as right"), "\(told)")
    }
  }

  @Test func `names the servers of a group with a zone, and says which of them DNS gives`() async throws {
    let scene = try Scene.ofTest()
    let conf = try scene.write(
      "x.conf",
      text: """
        events {} http { resolver 127.0.0.1:9;
          upstream fixed { zone a 64k; server 127.0.0.1:1; server 127.0.0.1:2 backup; }
          upstream mixed { zone b 64k; server 127.0.0.1:3; server up.test:4 resolve; }
          upstream named { zone c 64k; server up.test:5 resolve; }
          server { listen 127.0.0.1:8099; location /fixed { proxy_pass http://fixed; }
            location /mixed { proxy_pass http://mixed; } location /named { proxy_pass http://named; } } }
        """)
    for (name, servers) in [
      ("fixed", "one of 127.0.0.1:1, 127.0.0.1:2 backup"), ("mixed", "one of 127.0.0.1:3, and those of DNS"),
      ("named", "its servers are those of DNS"),
    ] {
      let words = ["check", "--config", conf, "--explain", "http://127.0.0.1:8099/\(name)"]
      let told = try await scene.run(Sallyport.binary(), words).text
      #expect(told.contains("http://\(name): \(servers)\n"), "\(told)")
    }
  }

  @Test func `names the outer fields that a location's own proxy_set_header keeps from the upstream`() async throws {
    let scene = try Scene.ofTest()
    let conf = try scene.write(
      "x.conf",
      text: """
        events {} http { server { listen 127.0.0.1:8099;
        proxy_set_header X-Client $ssl_client_s_dn;
        proxy_set_header x-own outer;
        location /own { proxy_set_header X-Own $host; proxy_pass http://127.0.0.1:9; }
        location /outer { proxy_pass http://127.0.0.1:9; } } }
        """)
    func explain(_ path: String) async throws -> String {
      try await scene.run(
        Sallyport.binary(), ["check", "--config", conf, "--explain", "http://127.0.0.1:8099/\(path)"]
      ).text
    }
    let own = try await explain("own")
    #expect(own.contains("of which these have no effect here: X-Client (\(conf):2:1)\n"), "\(own)")
    let outer = try await explain("outer")
    #expect(!outer.contains("no effect here") && outer.contains("x-own: outer"), "\(outer)")
  }

  @Test(arguments: [
    (["GET https://a.test:1/"], "no listener has port 1:"),
    (["GET https://a.test:8099/"], "no listener has port 8099 with TLS"),
    (["GET ftp://a.test/"], "must begin with https:// or http://"),
    (["a b c"], "it must be METHOD URL"), (["get https://a.test/"], "\"get\" is not a method"),
    (["GET https://a.test:99999/"], "there is no host that can be read"),
    (["GET https://a.test/", "--from", "here"], "it must be an IPv4 or IPv6 address"),
    (["GET https://a.test/", "--header", "x"], "it must be NAME: VALUE"),
    (["GET https://a.test/", "--cert", "missing.pem"], "--cert: "),
  ])
  func `refuses what is no request, and says why`(words: [String], reason: String) async throws {
    let scene = try Scene.ofTest()
    let conf = try scene.write("x.conf", text: "events {} http { server { listen 127.0.0.1:8099; return 200 x; } }")
    let result = try await scene.run(Sallyport.binary(), ["check", "--config", conf, "--explain"] + words)
    #expect(result.status == 1 && result.everything.contains(reason), "\(result.everything)")
  }
}
