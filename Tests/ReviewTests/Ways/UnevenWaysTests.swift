import ConfigurationSupport
@testable import Review
import TestSupport
import Testing
@testable import Traffic

/// What a person has to look at first: ways that ask for less than another one to the same path.
@Suite struct `Uneven ways` {
  /// `location: what is missing` of each way to the upstream.
  private func uneven(_ servers: String, to upstream: String = "127.0.0.1:9") throws -> [String] {
    let loaded = LoadedText("events {} http { ssl_certificate s; ssl_certificate_key k; \(servers) }")
    let http = try #require(loaded.settings?.http, "\(loaded.errors)")
    let ways = WaySearch(http).ways.filter { $0.content.words.contains(upstream) }
    return UnevenWays(ways, http).found.map {
      "\($0.way.location.match.asWritten): \($0.missing.joined(separator: ", "))"
    }
  }

  private static let trust = "ssl_client_certificate ca; ssl_verify_client on;"
  private static let pass = "proxy_pass http://127.0.0.1:9;"

  private static func server(_ lines: String, _ name: String = "a", _ trust: String = trust) -> String {
    "server { listen 127.0.0.1:443 ssl; server_name \(name); \(trust) \(lines) }"
  }

  @Test(arguments: [
    // Each location asks for what the paths of its own are to be asked.
    "location / { \(pass) } location /admin/ { ssl_client_allow cn=boss; \(pass) }",
    "location / { ssl_client_allow o=a; \(pass) } location ~ \\.pdf$ { ssl_client_allow o=a; \(pass) }",
    // The upstream gets another path.
    "location /x/ { proxy_pass http://127.0.0.1:9/y/; } location /admin/ { ssl_client_allow cn=boss; \(pass) }",
    "location /x/ { rewrite ^/x/(.*) /y/$1 break; \(pass) } location /admin/ { ssl_client_allow cn=boss; \(pass) }",
    "location /old { rewrite ^/old(.*) /admin/$1 last; } location /admin/ { ssl_client_allow cn=boss; \(pass) }",
    // An error page of what went wrong behind the rules.
    "error_page 502 @sorry; location / { ssl_client_allow cn=boss; \(pass) } location @sorry { return 200; }",
  ]) func `there are none where each path is asked for the same`(_ lines: String) throws {
    #expect(try uneven(Self.server(lines)) == [])
  }

  @Test func `of ways that are equally open, one that asks for a part of what another asks is told`() throws {
    let boss = "ssl_client_allow cn=boss;"
    let found = try uneven(
      Self.server("location / { \(boss) \(Self.pass) }")
        + Self.server("location / { \(boss) auth_basic a; auth_basic_user_file users; \(Self.pass) }", "b"))
    #expect(found.count == 1, "\(found)")
  }

  @Test func `there are none where two server blocks trust other CAs`() throws {
    let other = "ssl_client_certificate other; ssl_verify_client on;"
    #expect(
      try uneven(Self.server("location / { \(Self.pass) }") + Self.server("location / { \(Self.pass) }", "b", other))
        == [])
  }

  /// Of a target with variables: what it writes behind the variable, and whether `= /admin/list` is reached by it.
  @Test(arguments: [
    ("", false), ("/y/", false), ("/y$uri", false), ("/admin/list", true), ("/admin/list?a=1", true), ("?a=1", false),
    ("/$arg_path", true), ("/admin/$arg_path", true), ("$request_uri", false),
  ]) func `a path behind variables is compared`(_ path: String, _ isReached: Bool) throws {
    let found = try uneven(
      Self.server(
        """
        set $app 127.0.0.1; location /x/ { proxy_pass http://$app\(path); }
        location = /admin/list { ssl_client_allow cn=boss; proxy_pass http://$app; }
        """), to: "$app")
    #expect(found == (isReached ? ["/x/: \(Self.rule)"] : []))
  }

  struct Hole: Sendable, CustomTestStringConvertible {
    let name: String
    let servers: String
    let found: [String]
    var testDescription: String { name }
  }

  private static let rule = "a certificate by the rules: allow cn=boss"

  static let holes = [
    Hole(
      name: "a listener without TLS",
      servers: "server { listen 127.0.0.1:443 ssl; listen 127.0.0.1:80; \(trust) location / { \(pass) } }",
      found: ["/: a certificate of ca"]),
    Hole(
      name: "a default server without verification",
      servers: server("location / { \(pass) }")
        + "server { listen 127.0.0.1:443 ssl default_server; location ~ x { \(pass) } location / { \(pass) } }",
      found: ["/: a certificate of ca"]),
    Hole(
      name: "another server block without the location and its rule",
      servers: server("location / { \(pass) } location /admin/ { ssl_client_allow cn=boss; \(pass) }")
        + server("location / { \(pass) }", "b"),
      found: ["/: \(rule)"]),
    Hole(
      name: "a path that proxy_pass replaces",
      servers: server(
        "location /x/ { proxy_pass http://127.0.0.1:9/admin/; } location /admin/ { ssl_client_allow cn=boss; \(pass) }"),
      found: ["/x/: \(rule)"]),
    Hole(
      name: "a path that a rewrite replaces behind the rules",
      servers: server(
        "location /x/ { rewrite ^/x/(.*) /$1 break; \(pass) } location /admin/ { ssl_client_allow cn=boss; \(pass) }"),
      found: ["/x/: \(rule)"]),
    Hole(
      name: "a regular expression of another server block, without its rule",
      servers: server("location ~ \\.pdf$ { ssl_client_allow cn=boss; \(pass) } location / { return 404; }")
        + server("location ~ \\.pdf$ { \(pass) } location / { return 404; }", "b"),
      found: ["~ \\.pdf$: \(rule)"]),
    Hole(
      name: "an error page of the refusal",
      servers: server(
        "location / { ssl_client_allow cn=boss; error_page 403 @open; \(pass) } location @open { \(pass) }"),
      found: ["@open: \(rule)"]),
    Hole(
      name: "an address that each client may claim",
      servers: "server { listen 127.0.0.1:80; server_name a; allow 10.0.0.0/8; deny all; location / { \(pass) } }"
        + "server { listen 127.0.0.1:80; server_name b; set_real_ip_from 0.0.0.0/0; allow 10.0.0.0/8; deny all;"
        + " location / { \(pass) } }",
      found: ["/: an address by allow 10.0.0.0/8, deny all"]),
  ]

  @Test(arguments: holes) func `a hole is among them`(_ hole: Hole) throws {
    #expect(try uneven(hole.servers) == hole.found)
  }

  @Test func `of many locations, one without the rule of most others is told`() throws {
    func lesser(_ lines: String) throws -> [String] {
      let loaded = LoadedText("events {} http { ssl_certificate s; ssl_certificate_key k; \(Self.server(lines)) }")
      let http = try #require(loaded.settings?.http, "\(loaded.errors)")
      let found = UnevenWays(WaySearch(http).ways.filter { $0.content.words.contains("127.0.0.1:9") }, http)
      #expect(found.found.isEmpty)
      return found.lesser.map { "\($0.way.location.match.asWritten): \($0.missing.joined(separator: ", "))" }
    }
    let guarded = "ssl_client_allow cn=boss; \(Self.pass)"
    let most = "location /a/ { \(guarded) } location /b/ { \(guarded) }"
    #expect(try lesser("\(most) location /c/ { \(Self.pass) }") == ["/c/: \(Self.rule)"])
    #expect(try lesser("\(most) location /c/ { \(guarded) }") == [])
    // As many that ask for less are meant so.
    #expect(try lesser("\(most) location /c/ { \(Self.pass) } location /d/ { \(Self.pass) }") == [])
  }

  @Test func `a rule that no listener without TLS can meet is no stricter way`() throws {
    let lines = "listen 127.0.0.1:80; location / { ssl_client_allow cn=boss; \(Self.pass) }"
    #expect(try uneven(Self.server(lines)) == [])
  }

  @Test func `sessions of stream have no path, and each way to the same upstream counts`() throws {
    let loaded = LoadedText(
      """
      events {} stream {
        server { listen 127.0.0.1:443 ssl; ssl_certificate s; ssl_certificate_key k; \(Self.trust) proxy_pass 127.0.0.1:9; }
        server { listen 127.0.0.1:80; proxy_pass 127.0.0.1:9; } }
      """)
    let http = try #require(loaded.settings?.http, "\(loaded.errors)")
    #expect(UnevenWays(WaySearch(http).ways, http).found.map(\.missing) == [["a certificate of ca"]])
  }
}

/// The lines of `sallyport ways` for a person.
@Suite struct `A report of ways` {
  private func lines(_ servers: String) throws -> [String] {
    try withScene { scene in
      let path = try scene.write(
        "w.conf", text: "events {}\nhttp {\nssl_certificate s; ssl_certificate_key k;\n\(servers)\n}\n")
      return WaysReport(try Ways(path, isTried: false), configuration: path).lines.map {
        $0.replacing(path, with: "w.conf")
      }
    }
  }

  private static let trust = "ssl_client_certificate ca; ssl_verify_client on;"

  @Test func `ways that differ by listener and location alone are one entry`() throws {
    let lines = try lines(
      """
      server { listen 127.0.0.1:443 ssl; listen [::1]:443 ssl; server_name a; \(Self.trust)
        location /x/ { proxy_pass http://127.0.0.1:9; }
        location /y/ { proxy_pass http://127.0.0.1:9; }
        location / { return 404; } }
      """)
    #expect(
      lines == [
        "upstream http://127.0.0.1:9: who has a certificate",
        "  who has a certificate",
        "    by        127.0.0.1:443 ssl and [::1]:443 ssl, a and any other name  w.conf:4:1",
        "    location  /x/  w.conf:5:3",
        "    location  /y/  w.conf:6:3",
        "    asks for  a certificate of ca",
        "    tells     nothing about the client",
        "    not shown",
        "  the upstream is not told who a client is",
        "",
      ])
  }

  @Test func `uneven ways come first, and say what is missing and who asks for it`() throws {
    let lines = try lines(
      """
      server { listen 127.0.0.1:443 ssl; server_name a; \(Self.trust) location / { proxy_pass http://127.0.0.1:9; } }
      server { listen 127.0.0.1:443 ssl default_server; server_name b; location / { proxy_pass http://127.0.0.1:9; } }
      """)
    #expect(
      lines.prefix(7) == [
        "Ways that ask for less than another way to the same path:",
        "  anybody",
        "    by        127.0.0.1:443 ssl, b, and any name of no other server, or none (default_server)  w.conf:5:1",
        "    location  /  w.conf:5:66, to upstream http://127.0.0.1:9",
        "    without   a certificate of ca",
        "    asked at  location /  w.conf:4:100 at 127.0.0.1:443 ssl",
        "",
      ], "\(lines)")
  }

  @Test func `a rule about addresses that each client may claim to meet is told`() throws {
    func text(_ from: String) -> String {
      """
      server { listen 127.0.0.1:80; server_name a; set_real_ip_from \(from);
        location / { allow 10.0.0.0/8; deny all; proxy_pass http://127.0.0.1:9; } }
      """
    }
    #expect(
      try lines(text("0.0.0.0/0")).prefix(3) == [
        "Rules about addresses that each client may claim to meet:",
        "    location  /  w.conf:5:3, to upstream http://127.0.0.1:9",
        "    asks for  an address by allow 10.0.0.0/8, deny all, which each client may claim to have",
      ])
    #expect(try lines(text("10.0.0.1")).first == "upstream http://127.0.0.1:9: who has an address")
  }

  @Test(arguments: ["$http_x_dn", "$arg_dn", "CN=$cookie_dn"])
  func `a field about the client that a client may write is told`(_ value: String) throws {
    func text(_ value: String) -> String {
      """
      server { listen 127.0.0.1:443 ssl; server_name a; \(Self.trust)
        location / { proxy_pass http://127.0.0.1:9; proxy_set_header X-DN $ssl_client_s_dn; }
        location /b/ { proxy_pass http://127.0.0.1:9; proxy_set_header x-dn \(value); } }
      """
    }
    let forged = try lines(text(value))
    #expect(
      forged.prefix(3) == [
        "Ways by which a client may write who it is:", "    location  /b/  w.conf:6:3, to upstream http://127.0.0.1:9",
        "    tells     x-dn from \(value)",
      ], "\(forged)")
    #expect(!forged.contains { $0.contains("no client's own field") })
    for harmless in ["\"\"", "nobody", "$ssl_client_s_dn_cn"] {
      let lines = try lines(text(harmless))
      #expect(
        lines.contains { $0.contains("no client's own field") } && lines.first?.hasPrefix("Ways") != true, "\(lines)")
    }
  }

  @Test func `the name of a variable stands in an upstream's name`() throws {
    let lines = try lines(
      "server { listen 127.0.0.1:80; set $app 127.0.0.1:9; location / { proxy_pass http://$app; } }")
    #expect(lines.first == "upstream http://$app: anybody")
  }
}
