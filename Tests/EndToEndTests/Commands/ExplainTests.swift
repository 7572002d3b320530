import Foundation
import Review
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
      let told = try Explanation(
        of: "\(one.method) \(url)", certificate: one.shows.map { scene.path("\($0).pem") }, from: nil,
        fields: one.fields,
        configuration: scene.path("sallyport.conf")
      ).lines
      let lines = told.map { $0.split(separator: " ", maxSplits: 1).map(String.init) }
      let statuses = lines.filter { $0.first == "status" }.compactMap {
        $0.last.map { $0.trimmingCharacters(in: .whitespaces) }
      }
      #expect(statuses.last == "\(real.status)", "\(one): \(told) \(real.heads)")
      let servers = lines.filter { $0.first == "server" }.compactMap {
        $0.last?.split(separator: " ").first.map(String.init)
      }
      if let place = real.response["X-Where"] {
        // The page of a 421 is of the block that judged the client in its handshake.
        #expect((real.status == 421 ? "a.test" : servers.last) == place, "\(one): \(told)")
      }
    }
    // Nobody was contacted by an explanation: each of the echo's requests is one of curl's.
    #expect(scene.text("error.log").contains("[crit]") == false)
  }

  @Test func `comes on standard output, and why there is none on standard error`() async throws {
    let scene = try Scene.ofTest()
    let conf = try scene.write("x.conf", text: "events {} http { server { listen 127.0.0.1:8099; return 200 x; } }")
    func explain(_ words: String) async throws -> ToolResult {
      try await scene.sallyport("check", "--config", conf, "--explain", words)
    }
    let told = try await explain("http://127.0.0.1:8099/")
    #expect(told.status == 0 && told.text.contains("status        200") && told.errors.isEmpty, "\(told.everything)")
    let refused = try await explain("a b c")
    #expect(refused.status == 1 && refused.errors.hasPrefix("error: ") && refused.text.isEmpty, "\(refused.everything)")
  }
}
