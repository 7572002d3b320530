import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `Locations and rewriting` {
  @Test func `the location is chosen as nginx does`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let locations = """
      location = / { return 200 exact; }
      location / { return 200 root; }
      location /docs/ { return 200 docs; }
      location /docs/deep/ { return 200 deep;  }
      location ^~ /images/ { return 200 images; }
      location ~ \\.(gif|jpg)$ { return 200 "regex $1"; }
      location ~* ^/user/(?<name>[a-z]+)/ { return 200 "user $name"; }
      location /outer/ { location /outer/inner/ { return 200 inner; } return 200 outer; }
      """
    let (nginx, _) = try (scene.port(), 0)
    _ = try await NginxUpstream.start(scene, ports: [nginx], "server { listen 127.0.0.1:\(nginx); \(locations) }")
    _ = try await Sallyport.start(scene, configuration("server { listen 127.0.0.1:\(port); \(locations) }"))
    for path in [
      "/", "/index", "/docs/", "/docs", "/docs/a", "/docs/deep/a", "/docs/a.gif", "/images/a.gif", "/a.JPG", "/a.jpg",
      "/USER/ann/",
      "/user/bob/x.gif", "/%64ocs/x", "/docs/../x", "/docs/./deep/a", "//docs//deep/a", "/docs%2Fdeep/", "/a/../../b",
      "/outer/x", "/outer/inner/x", "/docs/%2e%2e/images/x", "/x%00y", "/%zz", "/docs?x=/images/", "/a%2e%67if",
    ] {
      let ours = try await scene.curl(["--path-as-is", "http://127.0.0.1:\(port)\(path)"])
      let theirs = try await scene.curl(["--path-as-is", "http://127.0.0.1:\(nginx)\(path)"])
      #expect(ours.status == theirs.status, "\(path)")
      if theirs.status == 200 { #expect(ours.text == theirs.text, "\(path)") }
    }
  }

  @Test func `the URI of proxy_pass takes the place of the prefix, as nginx does`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in try wire.serve { try wire.answer($0.target) } }
    let (port, nginx) = try (scene.port(), scene.port())
    let up = "http://127.0.0.1:\(upstream.port)"
    let locations = """
      location /plain/ { proxy_pass \(up); }
      location /slash/ { proxy_pass \(up)/; }
      location /moved/ { proxy_pass \(up)/to/here/; }
      location /bare { proxy_pass \(up)/x; }
      location = /exact { proxy_pass \(up)/other?q=1; }
      location ~ ^/re/(.*)$ { proxy_pass \(up); }
      location ~ ^/var/(.*)$ { proxy_pass \(up)/v/$1?was=$arg_a; }
      """
    _ = try await NginxUpstream.start(scene, ports: [nginx], "server { listen 127.0.0.1:\(nginx); \(locations) }")
    _ = try await Sallyport.start(scene, configuration("server { listen 127.0.0.1:\(port); \(locations) }"))
    for path in [
      "/plain/a%20b?c=d", "/slash/a/b", "/slash/", "/moved/a%2Fb?c", "/moved//a", "/moved/a/../b", "/bare/more",
      "/bareword",
      "/exact", "/exact?r=2", "/re/a%20b?c=%20", "/var/a/b?a=7", "/plain/../plain/x", "/slash/%C3%A9%3F",
      "/moved/a%25b",
      "/plain//a", "/moved/a+b&c;d=e'(f)", "/moved/%7Euser",
    ] {
      let ours = try await scene.curl(["--path-as-is", "http://127.0.0.1:\(port)\(path)"]).text
      let theirs = try await scene.curl(["--path-as-is", "http://127.0.0.1:\(nginx)\(path)"]).text
      #expect(ours == theirs, "\(path)")
    }
  }

  @Test func `Host and the fields that are set reach the upstream`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port,
      location: """
        proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; proxy_set_header Accept "";
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Scheme $scheme; proxy_method PUT;
        """)
    let result = try await proxy.curl(
      "/head?x=1", ["-H", "Host: Some.Host:99", "-H", "X-Real-IP: 6.6.6.6", "-H", "X-Forwarded-For: 1.2.3.4"])
    let lines = Set(result.text.split(separator: "\n").map(String.init))
    #expect(
      lines.isSuperset(of: [
        "Host: some.host", "X-Real-IP: 127.0.0.1", "X-Forwarded-For: 1.2.3.4, 127.0.0.1", "X-Scheme: http",
      ]))
    #expect(result.text.hasPrefix("PUT /head?x=1 HTTP/1.1\n"))
    #expect(!result.text.contains("6.6.6.6") && !result.text.contains("Accept"))
  }

  @Test func `redirects of the upstream are rewritten`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        let location = String(request.target.split(separator: "=", maxSplits: 1).last ?? "")
        try wire.answer(status: "302 Found", fields: ["Location: \(location)", "Refresh: 5; url=\(location)"])
      }
    }
    let port = try scene.port()
    let up = "http://127.0.0.1:\(upstream.port)"
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port);
        location /one/ { proxy_pass \(up)/two/; }
        location /off/ { proxy_pass \(up)/two/; proxy_redirect off; }
        location /own/ { proxy_pass \(up); proxy_redirect http://inner.test/ https://outer.test:8443/; proxy_redirect http://b.test/ /b/; }
        location /relative/ { proxy_pass \(up); proxy_redirect http://b.test/ /b/; absolute_redirect off; }
      }
      """)
    // A Location that a rule made a path becomes absolute, another one does not, nor does Refresh: as nginx has it.
    let here = "http://127.0.0.1:\(port)"
    for (path, from, to, base) in [
      ("/one/", "\(up)/two/x", "/one/x", here), ("/one/", "\(up)/three/", "\(up)/three/", ""),
      ("/one/", "/two/x", "/two/x", ""), ("/off/", "\(up)/two/x", "\(up)/two/x", ""),
      ("/own/", "http://inner.test/a", "https://outer.test:8443/a", ""), ("/own/", "http://b.test/a", "/b/a", here),
      ("/relative/", "http://b.test/a", "/b/a", ""),
    ] {
      let result = try await scene.curl(["\(here)\(path)?to=\(from)"])
      #expect(result["Location"] == base + to, "\(path) \(from)")
      #expect(result["Refresh"] == "5; url=\(to)", "\(path) \(from)")
    }
  }

  @Test func `fields of the answer are hidden, passed and added`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        try wire.answer(
          "x", status: request.target == "/404" ? "404 Not Found" : "200 OK",
          fields: [
            "X-Powered-By: php", "X-Keep: me", "Server: inner/1.0", "Date: Thu, 01 Jan 1970 00:00:00 GMT", "X-Pad: p",
            "X-Accel-Charset: utf-8", "Set-Cookie: a=1", "Set-Cookie: b=2",
          ])
      }
    }
    let proxy = try await PlainProxy(
      scene, to: upstream.port,
      location: """
        proxy_hide_header X-Powered-By; proxy_pass_header Server; add_header X-Added "to $host $status"; add_header X-Always yes always;
        """)
    let result = try await proxy.curl("/")
    #expect(result["X-Powered-By"] == nil)
    #expect(result["X-Keep"] == "me")
    #expect(result.response.all("Server") == ["inner/1.0"])
    #expect(result.response.all("Date").count == 1)
    #expect(result["X-Accel-Charset"] == nil && result["X-Pad"] == nil)
    #expect(result.response.all("Set-Cookie") == ["a=1", "b=2"])
    #expect(result["X-Added"] == "to 127.0.0.1 200")
    let missing = try await proxy.curl("/404")
    #expect(missing.status == 404 && missing["X-Added"] == nil && missing["X-Always"] == "yes")
  }

  @Test func `return answers, redirects, and closes`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); server_name here.test;
        location /text { return 200 "uri $uri args $args\\n"; }
        location /moved { return 301 https://$host$request_uri; }
        location /path { return 302 /elsewhere; }
        location /url { return http://other.test/; }
        location /status { return 404; }
        location /empty { return 204; }
        location /close { return 444; }
        location /set { set $a "one"; set $b "$a two"; return 200 $b; }
      }
      """)
    func ask(_ path: String) async throws -> CurlResult {
      try await scene.curl(["-H", "Host: here.test", "http://127.0.0.1:\(port)\(path)"])
    }
    #expect(try await ask("/text?x=y").text == "uri /text args x=y\n")
    #expect(try await ask("/text")["Content-Type"] == "text/plain")
    #expect(try await ask("/moved/a?b=c")["Location"] == "https://here.test/moved/a?b=c")
    #expect(try await ask("/path")["Location"] == "http://here.test:\(port)/elsewhere")
    let url = try await ask("/url")
    #expect(url.status == 302 && url["Location"] == "http://other.test/")
    #expect(try await ask("/status").status == 404)
    let empty = try await ask("/empty")
    #expect(empty.status == 204 && empty.body.isEmpty && empty["Content-Length"] == nil)
    let closed = try await ask("/close")
    #expect(closed.isUnanswered)
    #expect(try await ask("/set").text == "one two")
    #expect(try await ask("/nothing").status == 404)
  }

  @Test(.ofHTTP1) func `a request with a body that is answered at once leaves the next one whole`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); location / { return 200 $request_uri; } }"))
    let answers = try await scene.talk(port) { wire in
      try wire.write(
        (0..<10).map {
          $0 % 2 == 0
            ? "POST /\($0) HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
            : "POST /\($0) HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        }.joined())
      return try (0..<10).map { _ in try wire.response() }
    }
    #expect(answers.map(\.text) == (0..<10).map { "/\($0)" })
  }

  @Test func `error_page shows another page, with another status where it says so`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let (port, dead) = try (scene.port(), scene.port())
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port);
        error_page 502 504 /sorry; error_page 404 =200 /found; error_page 418 @tea; error_page 403 https://help.test/;
        location /dead { proxy_pass http://127.0.0.1:\(dead); }
        location /missing { return 404; }
        location /tea { return 418; }
        location /secret { deny all; proxy_pass http://127.0.0.1:\(dead); }
        location = /sorry { internal; return 200 "sorry\\n"; }
        location = /found { return 200 "found\\n"; }
        location @tea { return 200 "tea\\n"; }
        location /plain { proxy_pass http://127.0.0.1:\(upstream.port)/status/404; }
        location /intercepted { proxy_pass http://127.0.0.1:\(upstream.port)/status/404; proxy_intercept_errors on; }
      }
      """)
    func ask(_ path: String) async throws -> CurlResult { try await scene.curl(["http://127.0.0.1:\(port)\(path)"]) }
    // Not found from outside, and so what is shown in place of a 404.
    let hidden = try await ask("/sorry")
    #expect(hidden.status == 200 && hidden.text == "found\n")
    #expect(try await ask("/plain").status == 404)
    #expect(try await ask("/intercepted").text == "found\n")
    let secret = try await ask("/secret")
    #expect(secret.status == 302 && secret["Location"] == "https://help.test/")
    #expect(try await ask("/dead").text == "sorry\n")
    #expect(try await ask("/missing").text == "found\n")
    #expect(try await ask("/tea").text == "tea\n")
  }

  @Test func `allow and deny are read in order`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    let up = "proxy_pass http://127.0.0.1:\(upstream.port);"
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port);
        location /in { allow 127.0.0.0/8; deny all; \(up) }
        location /out { deny 127.0.0.1; allow all; \(up) }
        location /other { allow 10.0.0.0/8; allow ::1; deny all; \(up) }
      }
      """)
    for (path, status) in [("/in", 200), ("/out", 403), ("/other", 403)] {
      #expect(try await scene.curl(["http://127.0.0.1:\(port)\(path)"]).status == status)
    }
    #expect(upstream.connections == 1)
  }

  @Test func `the access log says what the format says`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "access_log some.log some if=$arg_log; access_log json.log json;",
      http: """
        log_format some '$remote_addr "$request" $status $body_bytes_sent $upstream_addr $upstream_status "$http_x_odd" $request_method'
          ' $uri $arg_a $server_port $server_protocol $connection_requests';
        log_format json escape=json '{"ua":"$http_user_agent","n":$body_bytes_sent}';
        """)
    _ = try await proxy.curl("/bytes/77?a=1&log=1", ["-H", "X-Odd: a\"b\u{e9}c", "-A", "q\"uote\\"])
    _ = try await proxy.curl("/bytes/78?log=0")
    _ = try await proxy.curl("/bytes/79")
    try await until("the logs") { scene.text("json.log").split(separator: "\n").count == 3 }
    let version = scene.speech.rawValue
    #expect(
      scene.text("some.log")
        == "127.0.0.1 \"GET /bytes/77?a=1&log=1 \(version)\" 200 77 127.0.0.1:\(upstream.port) 200 \"a\\x22b\\xC3\\xA9c\" GET /bytes/77 1 \(proxy.port) \(version) 1\n"
    )
    #expect(scene.text("json.log").contains(#"{"ua":"q\"uote\\","n":77}"# + "\n"))
    // The lines of its own level replaced the outer one.
    #expect(scene.text("access.log").isEmpty)
  }
}
