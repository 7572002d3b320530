import TestSupport
import Testing

@Suite(.staged) struct `Access rules and rewriting` {
  @Test func `no way through the configuration leads a client around the rules of a location`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene, verify: "optional", server: "rewrite ^/server/(.*)$ /closed/$1;",
      locations: """
        location /closed/ { ssl_client_allow cn=alice; proxy_pass UPSTREAM; }
        location /last/ { rewrite ^/last/(.*)$ /closed/$1 last; }
        location /flagless/ { rewrite ^/flagless/(.*)$ /closed/$1; }
        location /if/ { if ($uri ~ ^/if/(.*)$) { rewrite ^ /closed/$1 last; } proxy_pass UPSTREAM; }
        location /block/ { ssl_client_allow cn=alice; if ($arg_a) { proxy_pass UPSTREAM; } if ($arg_b) { return 200 secret; }
          proxy_pass UPSTREAM; }
        location /limit/ { limit_except GET { ssl_client_allow cn=alice; } proxy_pass UPSTREAM; }
        location /inner/ { ssl_client_allow cn=alice; limit_except GET { allow all; } proxy_pass UPSTREAM; }
        location /any/ { ssl_client_allow cn=alice; satisfy any; allow all; proxy_pass UPSTREAM; }
        location /page/ { recursive_error_pages on; error_page 404 =200 /second/; return 404; }
        location /second/ { recursive_error_pages on; error_page 410 =200 /closed/x; return 410; }
        location /variable/ { set $page @closed; error_page 404 =200 $page; return 404; }
        location /redirect/ { ssl_client_allow cn=alice; rewrite ^ https://secret.test/ redirect; }
        location /map/ { error_page 403 =200 $uri; rewrite ^/map/(.*)$ /closed/$1 last; }
        location @closed { ssl_client_allow cn=alice; proxy_pass UPSTREAM; }
        """)
    func ask(_ path: String, _ options: [String] = [], as identity: IdentityFiles? = nil) async throws -> CurlResult {
      try await scene.curl(cast.to(front.port) + (identity?.curl ?? []) + options + ["https://localhost\(path)"])
    }
    let closed: [(path: String, options: [String])] = [
      ("/server/x", []), ("/last/x", []), ("/flagless/x", []), ("/if/x", []), ("/block/x", []), ("/block/x?a=1", []),
      ("/block/x?b=1", []), ("/limit/x", ["-X", "POST"]), ("/inner/x", ["-X", "POST"]), ("/inner/x", []),
      ("/any/x", []),
      ("/page/x", []), ("/variable/x", []), ("/redirect/x", []), ("/map/x", []),
    ]
    for (path, options) in closed {
      let result = try await ask(path, options)
      #expect(result.status == 403, "\(path) \(options)")
      #expect(!result.text.contains("secret") && result["Location"] == nil, "\(path)")
    }
    #expect(front.upstream.connections == 0)
    for (path, options) in closed {
      let result = try await ask(path, options, as: cast.alice)
      #expect(result.status == (path.hasPrefix("/redirect/") ? 302 : 200), "\(path) \(options)")
    }
    #expect(try await ask("/limit/x").status == 200)
  }

  @Test func `a field that a map or an if fills from the certificate can't come from a client`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let upstream = try ScriptedUpstream.echo(scene), port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      map $ssl_client_s_dn $team { ~CN=alice a; default none; }
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls(verify: "on"))
        proxy_set_header X-Team $team;
        location / { proxy_pass http://127.0.0.1:\(upstream.port); }
        location /own/ { if ($ssl_client_s_dn ~ "CN=([a-z]+)") { set $user $1; } proxy_set_header X-User $user;
          proxy_pass http://127.0.0.1:\(upstream.port)/; }
      }
      """)
    func head(_ path: String) async throws -> String {
      try await scene.curl(
        cast.to(port) + cast.alice.curl + ["-H", "X-Team: root", "-H", "X-User: root", "https://localhost\(path)head"]
      ).text
    }
    let (mapped, captured) = try await (head("/"), head("/own/"))
    #expect(mapped.contains("X-Team: a\n") && !mapped.contains("root"))
    #expect(captured.contains("X-User: alice\n") && !captured.contains("root"))
  }
}
