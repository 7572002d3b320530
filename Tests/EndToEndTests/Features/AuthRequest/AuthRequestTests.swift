import Foundation
import TestSupport
import Testing

/// `auth_request`, `mirror` and X-Accel-Redirect beside nginx, with a stand-in for oauth2-proxy.
@Suite(.stagedOverBoth) struct `Subrequests` {
  /// What the documentation of oauth2-proxy has for nginx.
  private static func oauth(_ port: UInt16) -> String {
    """
    server { listen PORT;
      location /oauth2/ { proxy_pass http://127.0.0.1:\(port); proxy_set_header Host $host;
        proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Auth-Request-Redirect $request_uri; }
      location = /oauth2/auth { proxy_pass http://127.0.0.1:\(port); proxy_set_header Host $host;
        proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-Uri $request_uri;
        proxy_set_header Content-Length ""; proxy_pass_request_body off; }
      location / { auth_request /oauth2/auth; error_page 401 =403 /oauth2/sign_in;
        auth_request_set $user $upstream_http_x_auth_request_user;
        auth_request_set $email $upstream_http_x_auth_request_email;
        proxy_set_header X-User $user; proxy_set_header X-Email $email;
        auth_request_set $auth_cookie $upstream_http_set_cookie; add_header Set-Cookie $auth_cookie;
        auth_request_set $second $upstream_cookie_s_1; add_header X-Second "$second $upstream_status";
        auth_request_set $asked "$upstream_status $status"; add_header X-Asked $asked always;
        proxy_pass http://127.0.0.1:\(port); }
      location /redirected { auth_request /oauth2/auth; error_page 401 =302 /oauth2/start?rd=$request_uri;
        proxy_pass http://127.0.0.1:\(port); }
      location /named { auth_request /oauth2/auth; error_page 401 = @signin; proxy_pass http://127.0.0.1:\(port); }
      location @signin { return 302 /oauth2/start?rd=$request_uri; }
      location /plain { auth_request /oauth2/auth; proxy_pass http://127.0.0.1:\(port);
        location /plain/open { auth_request off; proxy_pass http://127.0.0.1:\(port); } }
    }
    """
  }

  @Test func `oauth2-proxy works as behind nginx`() async throws {
    let scene = try Scene.ofTest()
    let both = try await NginxComparison(scene, Self.oauth(scene.listening(.oauth)))
    for path in [
      "/app?a=b", "/redirected/x?y=z", "/named?q", "/plain", "/plain/open", "/oauth2/auth", "/oauth2/start?rd=/",
    ] {
      try await both.expectSame([
        .init(path), .init(path, "-b", "s=good"), .init(path, "-b", "s=bad"), .init(path, "-I", "-b", "s=good"),
        .init(path, "-d", "some text", "-b", "s=good"),
        .init(path, "-d", "some text"),
      ])
    }
    let good = try await both.ask("/app", "-b", "s=good", "-H", "X-User: mallory")
    #expect(good.text.contains("X-User=['al'] X-Email=['al@x.test']"))
    #expect(try await both.ask("/app").text.contains("sign in GET"))
  }

  @Test func `the answers of auth_request mean what they mean to nginx`() async throws {
    let scene = try Scene.ofTest()
    let port = try await scene.listening(.oauth), dead = try scene.port()
    try scene.write("users", text: "al:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
    let statuses = [200, 201, 204, 301, 400, 401, 403, 404, 418, 429, 500, 502, 503]
    let plain = statuses.map {
      """
      location /s\($0) { auth_request /a\($0); proxy_pass http://UPSTREAM; }
      location /e\($0) { auth_request /a\($0); error_page 401 403 500 = @page; proxy_pass http://UPSTREAM; }
      location = /a\($0) { internal; proxy_pass http://127.0.0.1:\(port)/status/\($0); proxy_pass_request_body off;
        proxy_set_header Content-Length ""; }
      """
    }.joined(separator: "\n")
    let basic = "auth_basic r; auth_basic_user_file FOLDER/users;"
    let both = try await NginxComparison(
      scene,
      """
      limit_req_zone $arg_k zone=z:1m rate=1r/m;
      server { listen PORT; \(plain)
        location @page { return 200 "page $uri"; }
        location /dead { auth_request /dead-a; proxy_pass http://UPSTREAM; }
        location = /dead-a { proxy_pass http://127.0.0.1:\(dead); }
        location /none { auth_request /nowhere-at-all; proxy_pass http://UPSTREAM; }
        location /any1 { satisfy any; deny all; \(basic) auth_request /a401; proxy_pass http://UPSTREAM; }
        location /any2 { satisfy any; deny all; \(basic) auth_request /a204; proxy_pass http://UPSTREAM; }
        location /any3 { satisfy any; allow all; auth_request /a403; proxy_pass http://UPSTREAM; }
        location /any4 { satisfy any; \(basic) auth_request /a500; proxy_pass http://UPSTREAM; }
        location /any5 { satisfy any; \(basic) auth_request /a403; proxy_pass http://UPSTREAM; }
        location /all1 { allow all; \(basic) auth_request /a204; proxy_pass http://UPSTREAM; }
        location /all2 { deny all; auth_request /a204; proxy_pass http://UPSTREAM; }
        location /said { auth_request /said-a; auth_request_set $said $upstream_http_x_said; add_header X-Said $said;
          proxy_pass http://UPSTREAM; }
        location = /said-a { deny all; auth_basic no; auth_basic_user_file FOLDER/users; auth_request /a403;
          proxy_pass http://127.0.0.1:\(port)/said; proxy_pass_request_body off; proxy_set_header Content-Length "";
          proxy_set_header X-Method "$request_method $request_uri $uri $args"; }
        location /limited { limit_req zone=z; auth_request /limited-a; proxy_pass http://UPSTREAM; }
        location = /limited-a { limit_req zone=z; return 204; }
        location /returned { auth_request /returned-a; proxy_pass http://UPSTREAM; }
        location = /returned-a { return 204; }
        location /long { auth_request /long-a; proxy_pass http://UPSTREAM; }
        location = /long-a { proxy_pass http://127.0.0.1:\(port)/long; }
      }
      """)
    let paths =
      statuses.flatMap { ["/s\($0)", "/e\($0)"] } + [
        "/dead", "/none", "/any1", "/any2", "/any3", "/any4", "/any5", "/all1", "/all2", "/said?x=y", "/returned",
        "/long",
        "/limited?k=a", "/limited?k=a", "/a200",
      ]
    try await both.expectSame(paths.map { .init($0) })
    try await both.expectSame(paths.filter { !$0.hasPrefix("/limited") }.map { .init($0, "-u", "al:secret") })
    try await both.expectSame(
      ["/s200", "/s401", "/said?x=y"].flatMap { [.init($0, "-d", "body"), .init($0, "-I"), .init($0, "-X", "DELETE")] })
    try await both.daemon.logged("[error]", "auth request unexpected status: 418", "request: \"GET /s418")
    try await both.daemon.logged("[error]", "subrequest: \"/dead-a\"")
  }

  @Test func `a cut answer, a page for an error, and a gRPC error admit nobody`() async throws {
    let scene = try Scene.ofTest()
    let port = try await scene.listening(.oauth), dead = try scene.port()
    let names = ["cut", "headcut", "hold"]
    let locations = names.map {
      """
      location /\($0) { auth_request /a-\($0); proxy_pass http://UPSTREAM; }
      location = /a-\($0) { proxy_pass http://127.0.0.1:\(port)/\($0); proxy_read_timeout 1s;
        error_page 404 500 502 504 =200 /ok; }
      """
    }.joined()
    let both = try await NginxComparison(
      scene,
      """
      server { listen PORT; \(locations) location /ok { return 200; }
        error_page 500 502 =200 @ok; location @ok { return 200 "page"; }
        location /dead { error_page 404 /x; auth_request /a-dead; proxy_pass http://UPSTREAM; }
        location = /a-dead { proxy_pass http://127.0.0.1:\(dead); error_page 502 =200 /ok; } }
      """)
    for path in names.map({ "/\($0)" }) + ["/dead"] {
      for fields in [[], ["Content-Type: application/grpc"]] {
        let words = fields.flatMap { ["-H", $0] } + ["-X", "POST"]
        let result = try await scene.curl(words + [both.url(path)])
        #expect(!result.text.contains("first"), "\(path) \(fields)")
      }
    }
    #expect(try await both.ask("/dead").status == 500)
    try await both.daemon.logged("[error]", "auth request got no whole response")
  }

  @Test func `a mirror gets what nginx's mirror gets, and its trouble reaches nobody`() async throws {
    let scene = try Scene.ofTest()
    let port = try await scene.listening(.oauth), dead = try scene.port()
    let both = try await NginxComparison(
      scene,
      """
      server { listen PORT; client_max_body_size 4m; client_body_buffer_size 8k;
        location / { mirror /m; mirror /gone; mirror /nowhere; proxy_pass http://UPSTREAM; }
        location /off { mirror off; proxy_pass http://UPSTREAM; }
        location /head { mirror /m; mirror_request_body off; proxy_pass http://UPSTREAM; }
        location = /m { internal; proxy_pass http://127.0.0.1:\(port)/copy?$request_uri; proxy_set_header X-Port $server_port; }
        location = /gone { proxy_pass http://127.0.0.1:\(dead); }
        location = /nowhere { return 404; }
      }
      """)
    let file = try scene.write("large", [UInt8](repeating: 0x61, count: 900_000))
    try await both.expectSame([
      .init("/a"), .init("/b?fail", "-d", "short"), .init("/c", "-X", "PUT", "--data-binary", "@\(file)"),
      .init("/off"),
      .init("/d", "-I"), .init("/e", "-H", "Transfer-Encoding: chunked", "-d", "chunked"), .init("/f", "-X", "DELETE"),
    ])
    let lines = try await waiting(for: "the copies") {
      let lines = scene.text("oauth.out").split(separator: "\n").map(String.init)
      return lines.count >= 12 ? lines : nil
    }
    let ports = Set(lines.compactMap { $0.split(separator: " ").dropFirst(2).first })
    #expect(ports.count == 2)
    let sides = ports.map { port in lines.filter { $0.contains(port) }.map { $0.replacing(port, with: "P") }.sorted() }
    #expect(sides.first == sides.last && sides.first?.count == 6)
    _ = try await both.ask("/head", "-d", "not sent")
    try await until("the head alone") { scene.text("oauth.out").contains("POST /copy?/head") }
    #expect(scene.text("oauth.out").contains(#/POST /copy\?/head \d+ 0/#))
  }

  @Test func `X-Accel-Redirect leads where nginx is led`() async throws {
    let scene = try Scene.ofTest()
    let port = try await scene.listening(.oauth)
    let both = try await NginxComparison(
      scene,
      """
      server { listen PORT; absolute_redirect off;
        location /accel { proxy_pass http://127.0.0.1:\(port); error_page 404 =404 /notfound; }
        location /private { internal; proxy_pass http://UPSTREAM; }
        location /text { internal; return 200 "text $uri $args"; }
        location /remember { internal; set $was $upstream_http_x_other; return 200 "was $was"; }
        location /notfound { return 404 "not found"; }
        location @named { proxy_pass http://UPSTREAM; }
        location /ignored { proxy_pass http://127.0.0.1:\(port)/accel; proxy_pass_header X-Accel-Redirect; }
      }
      """)
    let targets = [
      "/private/a", "/private/a%3Fb=c", "/text/x?a=b", "/text/%25x", "/private/%2e%2e/b", "@named", "@none", "/nowhere",
      "/../x", "/remember", "/private/%25252e", "/private/a%2520b",
    ]
    for target in targets {
      let escaped = target.replacing("%", with: "%25").replacing("?", with: "%3F").replacing("&", with: "%26")
      let path = "/accel?to=\(escaped)"
      try await both.expectSame([
        .init(path), .init(path, "-d", "x"), .init(path, "-I"), .init("\(path)&status=404"),
        .init("/ignored?to=\(escaped)"),
      ])
    }
    try await both.expectSame([.init("/private/x", "-H", "X-Accel-Redirect: /private/x")])
  }

  @Test func `client certificates count for a subrequest, and its own rules hold`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let port = try await scene.listening(.oauth), own = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(own) ssl; server_name localhost; \(Cast.tls)
        location / { auth_request /auth; auth_request_set $said $upstream_http_x_said; add_header X-Said $said;
          proxy_pass http://127.0.0.1:\(port)/app; }
        location = /auth { internal; proxy_set_header X-DN $ssl_client_s_dn; proxy_pass http://127.0.0.1:\(port)/said; }
        location /bob { auth_request /bobs; proxy_pass http://127.0.0.1:\(port)/app; }
        location = /bobs { ssl_client_allow cn=bob; proxy_pass http://127.0.0.1:\(port)/said; }
      }
      """)
    let words = cast.to(own) + ["--cert", scene.path("alice.pem"), "--key", scene.path("alice.key")]
    let result = try await scene.curl(words + ["-H", "X-DN: mallory", "https://localhost/"])
    #expect(result.status == 200 && result["X-Said"]?.contains("X-DN=['CN=alice") == true)
    #expect(result["X-Said"]?.contains("mallory") == false)
    #expect(try await scene.curl(words + ["https://localhost/bob"]).status == 403)
  }

  @Test(.ofHTTP1) func `a thousand subrequests that are cut at each step leave nothing behind`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene, records: false) { wire, _ in
      while let request = try wire.request() {
        switch request.target {
        case "/head": try wire.write("HTTP/1.1 200 OK\r\nContent-Le")
        case "/body": try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx")
        case "/hold": break
        case "/close": return
        default: try wire.answer("ok")
        }
      }
    }
    let steps = ["hold", "head", "body", "close", "ok"]
    let locations = steps.map {
      """
      location /\($0) { auth_request /a/\($0); proxy_pass http://127.0.0.1:\(upstream.port)/ok; }
      location = /a/\($0) { proxy_pass http://127.0.0.1:\(upstream.port)/\($0); }
      location /m/\($0) { mirror /a/\($0); proxy_pass http://127.0.0.1:\(upstream.port)/ok; }
      """
    }.joined()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration("server { listen 127.0.0.1:\(port); proxy_read_timeout 100ms; \(locations) }", level: "crit")
        // Mirrors go on after their clients, and hold connections until they time out.
        .replacing("worker_connections 256", with: "worker_connections 900").replacing(
          "worker_processes 2", with: "worker_processes 1"
        ).replacing(
          "access_log access.log", with: "access_log off"))
    func round(_ count: Int) async throws {
      for number in 0..<count {
        let step = steps[number % steps.count], isMirror = number % 3 == 0
        try await scene.talk(port) { wire in
          try wire.write("GET /\(isMirror ? "m/" : "")\(step) HTTP/1.1\r\nHost: h\r\n\r\n")
          if step == "close" || step == "ok" || isMirror { _ = try wire.response() }
        }
      }
    }
    try await round(300)
    let before = try #require(daemon.memory("VmRSS"))
    try await round(1000)
    try await until("the connections to end") { Self.descriptors(of: daemon) < 40 }
    let after = try #require(daemon.memory("VmRSS"))
    // A sanitizer keeps freed memory.
    if ProcessInfo.processInfo.environment["SALLYPORT_SANITIZER"] == nil {
      #expect(after - before < 4096, "\(before) KiB, then \(after) KiB")
    }
    let good = try await scene.curl(["http://127.0.0.1:\(port)/ok"])
    #expect(good.status == 200)
  }

  private static func descriptors(of daemon: Sallyport) -> Int {
    (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(daemon.process.identifier)/fd").count) ?? 0
  }
}
