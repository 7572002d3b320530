import TestSupport
import Testing

/// Details in which sallyport once answered in another way than nginx does. The list of what differs by intent is in
/// docs/DIRECTIVES.md.
@Suite(.staged) struct `Answers as nginx gives them` {
  @Test func `variables of repeated fields, of attempts and of the connection`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in
        try wire.answer(
          "ok", fields: ["X-One: 1", "Set-Cookie: c = v w ; Path=/", "Set-Cookie: d=2", "Link: <a>", "Link: <b>"])
      }
    }
    let dead = try scene.port()
    let twin = try await NginxTwin(
      scene,
      """
      upstream single { server 127.0.0.1:\(dead); server 127.0.0.1:\(dead) down; }
      upstream alldown { server 127.0.0.1:\(dead) down; server 127.0.0.1:\(dead) down; }
      server { listen LISTEN; server_name ~^h(?<x>.*)$;
        location /v { add_header V "[$http_cookie][$http_x_forwarded_for][$arg_][$http_][$cookie_]"; return 200 "$server_name|$uri|$pipe|$args"; }
        location /up { proxy_pass http://127.0.0.1:\(upstream.port);
          add_header V "[$upstream_http_x_one][$upstream_cookie_c][$upstream_cookie_d][$sent_http_link][$upstream_response_time]"; }
        location /sent { add_header A one; add_header B "<$sent_http_a>"; return 200 x; }
        location /single { proxy_pass http://single; add_header V "[$upstream_addr][$upstream_status]" always; }
        location /alldown { proxy_pass http://alldown;
          add_header V "[$upstream_addr][$upstream_status][$upstream_connect_time][$upstream_response_length]" always; }
        location /page { proxy_pass http://127.0.0.1:\(dead); error_page 502 /shown; }
        location /named { proxy_pass http://127.0.0.1:\(dead); error_page 502 @shown; }
        location /shown { add_header V "[$upstream_addr][$upstream_status]" always; return 200 page; }
        location @shown { add_header V "[$upstream_addr][$upstream_status]" always; return 200 page; }
      }
      """)
    let get = NginxTwin.get
    try await twin.compare(
      "GET /v?=a&b=c HTTP/1.1\r\nHost: h\r\nConnection: close\r\nCookie: a=1\r\nCookie: b=2\r\nX-Forwarded-For: 1\r\nX-Forwarded-For: 2\r\n\r\n"
    )
    try await twin.compare("GET /v HTTP/1.1\r\nHost: h\r\n\r\nGET /v HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    for path in ["/up", "/sent", "/single", "/single", "/alldown", "/page", "/named"] {
      try await twin.compare(get(path))
    }
  }

  /// nginx has joined all fields since 1.23; Debian's is older.
  @Test func `variables join the values of every repeated field`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in
        try wire.answer("ok", fields: ["X-One: 1", "X-One: 2", "Expires: a", "Expires: b", "ETag: a", "ETag: b"])
      }
    }
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      log_format refused '$status $uri'; access_log refused.log refused;
      server { listen 127.0.0.1:\(port);
        location /v { return 200 "[$http_x_one][$content_type]"; }
        location /up { proxy_pass http://127.0.0.1:\(upstream.port);
          add_header A 1; add_header A 2; add_header V "[$upstream_http_x_one][$sent_http_x_one][$sent_http_a]"; }
      }
      """)
    func ask(_ path: String) async throws -> HTTPMessage {
      try await scene.talk(port) { wire in
        try wire.write(NginxTwin.get(path, "X-One: 1", "X-One: 2", "Content-Type: a", "Content-Type: b"))
        return try wire.response()
      }
    }
    #expect(try await ask("/v").text == "[1, 2][a, b]")
    let up = try await ask("/up")
    #expect(up["V"] == "[1, 2][1, 2][1, 2]")
    #expect(up.all("Expires") == ["a"] && up.all("ETag") == ["a"])
    _ = try await scene.talk(port) { wire in
      try wire.write("GET /seen/../%61 HTTP/1.1\r\n\r\n")
      return try wire.readToEnd()
    }
    try await until("the log") { scene.text("refused.log").contains("400 /a\n") }
  }

  @Test func `error pages`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        if request.target == "/401" {
          try wire.answer("no", status: "401 Unauthorized", fields: ["WWW-Authenticate: Basic realm=\"x\""])
        } else {
          try wire.answer("ok")
        }
      }
    }
    let (up, dead) = ("http://127.0.0.1:\(upstream.port)", try scene.port())
    let twin = try await NginxTwin(
      scene,
      """
      server { listen LISTEN;
        location /401/page { proxy_pass \(up)/401; proxy_intercept_errors on; error_page 401 /page; }
        location /401/proxied { proxy_pass \(up)/401; proxy_intercept_errors on; error_page 401 /proxied; }
        location /302/page { error_page 302 /page; return 302 /x; }
        location /302/named { error_page 302 =200 @page; return 302 /x; }
        location /302/url { error_page 302 http://other.test/; return 302 /x; }
        location /301 { error_page 301 404 =203 /page; return 301 /x; }
        location /slash/ { proxy_pass \(up)/; error_page 301 /page; }
        location /405 { error_page 404 /says405; return 404; }
        location /405/other { error_page 404 =200 /says405; return 404; }
        location /200 { error_page 404 /says200; return 404; }
        location /200/other { error_page 404 =202 /says200; return 404; }
        location /200/own { error_page 404 = /says200; return 404; }
        location /204 { error_page 404 /says204; return 404; }
        location /204/own { error_page 404 = /says204; return 404; }
        location /307 { error_page 404 /says307; return 404; }
        location /502 { error_page 404 =200 /says502; return 404; }
        location /nowhere { error_page 404 =200 /nothing/there; return 404; }
        location /page { return 200 page; }
        location @page { return 200 page; }
        location /proxied { proxy_pass \(up); }
        location /says405 { return 405; }
        location /says200 { return 200; }
        location /says204 { return 204; }
        location /says307 { return 307 /y; }
        location /says502 { proxy_pass http://127.0.0.1:\(dead); }
        location /300 { return 300; }
        location /205 { return 205; }
      }
      """)
    for path in [
      "/401/page", "/401/proxied", "/302/page", "/302/named", "/302/url", "/301", "/slash", "/405", "/405/other",
      "/200", "/200/other", "/200/own", "/204", "/204/own", "/307", "/502", "/nowhere", "/300", "/205",
    ] {
      try await twin.compare(NginxTwin.get(path))
    }
  }

  @Test func `connections, upstream groups and sockets that a variable names`() async throws {
    let scene = try Scene.ofTest()
    let socket = scene.path("up.sock")
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        switch request.target {
        case "/404": try wire.answer("no", status: "404 Not Found")
        case "/426":
          try wire.answer("no", status: "426 Upgrade Required", fields: ["Upgrade: foo", "Connection: upgrade"])
        default: try wire.answer(request.target)
        }
      }
    }
    _ = try ScriptedUpstream(scene, unixPath: socket) { wire, _ in
      try wire.serve { request in try wire.answer("\(request.target) \(request["X-Host"] ?? "")") }
    }
    let dead = try scene.port()
    let twin = try await NginxTwin(
      scene,
      """
      upstream half { server 127.0.0.1:\(upstream.port); server 127.0.0.1:\(dead) down; }
      server { listen LISTEN;
        location /requests { keepalive_requests 1; return 200 x; }
        location /timeout { keepalive_timeout 0; return 200 x; }
        location /half { proxy_pass http://half/404; proxy_next_upstream http_404; }
        location /426 { proxy_pass http://127.0.0.1:\(upstream.port); }
        location /small { proxy_pass http://127.0.0.1:\(upstream.port)/x; proxy_buffer_size 400; }
        location /socket { set $v "unix:\(socket):/here?a"; proxy_pass http://$v; proxy_set_header X-Host $proxy_host; }
      }
      """)
    for path in ["/requests", "/timeout"] { try await twin.compare("GET \(path) HTTP/1.1\r\nHost: h\r\n\r\n") }
    for path in ["/half", "/426", "/small", "/socket"] { try await twin.compare(NginxTwin.get(path)) }
  }

  @Test func `requests that are refused`() async throws {
    let scene = try Scene.ofTest()
    let twin = try await NginxTwin(scene, "server { listen LISTEN; location / { return 200 x; } }")
    for name in [
      "If-Modified-Since", "If-Unmodified-Since", "If-Match", "If-None-Match", "If-Range", "Content-Range", "Range",
      "Referer", "Upgrade", "Via", "Accept-Encoding", "Content-Type", "User-Agent", "Authorization",
    ] {
      try await twin.compare(NginxTwin.get("/", "\(name): a", "\(name): a"))
    }
    for fields in [
      ["Expect: 100-continue", "Expect: 100-continue"], ["Transfer-Encoding: gzip", "Transfer-Encoding: br"],
      ["Transfer-Encoding: gzip"], ["Transfer-Encoding: gzip", "If-Match: a", "If-Match: b"],
    ] {
      try await twin.compare(
        "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n")
    }
    for host in ["[ab..cd::1]", "[::1]", "[::1]:80", "a..b"] {
      try await twin.compare("GET / HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n")
    }
  }
}
