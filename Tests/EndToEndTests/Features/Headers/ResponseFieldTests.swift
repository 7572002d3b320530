import TestSupport
import Testing

/// `expires`, `add_header`, `add_trailer` and what an upstream's fields become, beside nginx.
@Suite(.staged) struct `Fields of responses` {
  private static let modified = "Last-Modified: Sun, 06 Nov 2044 08:49:37 GMT"
  private static let aged = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"

  private static func upstream(_ scene: Scene) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        switch request.target {
        case "/new":
          try wire.answer(
            "ok", fields: [modified, "ETag: \"x\"", "Expires: a", "Cache-Control: one", "Cache-Control: two"])
        case "/old": try wire.answer("ok", fields: [aged])
        case "/404": try wire.answer("no", status: "404 Not Found", fields: ["ETag: \"x\""])
        default:
          try wire.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok")
          wire.finishWriting()
        }
      }
    }
  }

  @Test func `expires, in every form`() async throws {
    let scene = try Scene.ofTest()
    let up = "http://127.0.0.1:\(try Self.upstream(scene).port)"
    let forms = [
      "epoch", "max", "off", "24h", "-1", "0", "'1d 2h'", "+30", "@0h", "@23h59m59s", "modified +1d", "modified -1d",
      "modified 0",
    ]
    let variables = ["$arg_e", "modified $arg_e"]
    var locations = ""
    for (index, form) in (forms + variables).enumerated() {
      for kind in ["new", "old", "404"] {
        locations += "location = /\(index)/\(kind) { expires \(form); proxy_pass \(up)/\(kind); }\n"
      }
    }
    let twin = try await NginxTwin(scene, "server { listen LISTEN; \(locations) }")
    for index in forms.indices {
      for kind in ["new", "old", "404"] { try await twin.compareInOneSecond(NginxTwin.get("/\(index)/\(kind)")) }
    }
    for index in variables.indices {
      for value in ["epoch", "max", "off", "1d", "@1h", "-5", "x", "", "1h1d", "5m1", "@25h", "9999999999"] {
        for kind in ["new", "old"] {
          try await twin.compareInOneSecond(NginxTwin.get("/\(forms.count + index)/\(kind)?e=\(value)"))
        }
      }
    }
  }

  @Test func `charset is named where a type has none`() async throws {
    let scene = try Scene.ofTest()
    let types = [
      "html": "text/html", "upper": "Text/HTML", "own": "text/html; charset=koi8-r", "level": "text/html; level=1",
      "json": "application/json", "script": "application/javascript", "plain": "text/plain",
    ]
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        let name = String(request.target.split(separator: "?")[0].split(separator: "/").last ?? "")
        try wire.answer("ok", fields: types[name].map { ["Content-Type: \($0)"] } ?? [])
      }
    }
    let up = "http://127.0.0.1:\(upstream.port)"
    let twin = try await NginxTwin(
      scene,
      """
      server { listen LISTEN; charset utf-8; default_type text/plain;
        location /pass/ { add_header X-Type $sent_http_content_type; proxy_pass \(up)/; }
        location /json/ { charset_types application/json; proxy_pass \(up)/; }
        location /any/ { charset_types *; charset koi8-r; proxy_pass \(up)/; }
        location /off/ { charset off; proxy_pass \(up)/; }
        location /if/ { if ($arg_c) { charset windows-1251; } proxy_pass \(up); }
        location /variable/ { set $c $arg_c; charset $c; proxy_pass \(up)/; }
        location /text { return 200 text; }
        location /moved { return 301 /text; }
        location /see { return 303 /text; }
        location /missing { return 404; }
      }
      """)
    for place in ["pass", "json", "any", "off", "if"] {
      for name in types.keys.sorted() + ["none"] where (place, name) != ("any", "level") {
        try await twin.compare(NginxTwin.get("/\(place)/\(name)"))
      }
    }
    for path in ["/if/html?c=1", "/variable/html?c=utf-8", "/variable/html", "/text", "/see", "/missing"] {
      try await twin.compare(NginxTwin.get(path))
    }
    try await twin.compare(NginxTwin.get("/moved"))
    // A request's value can't add a parameter: nginx takes any text.
    let forged = try await scene.curl(["-i", "http://127.0.0.1:\(twin.ours)/variable/html?c=utf-8;x=y"])
    #expect(forged.text.contains("Content-Type: text/html\r\n"), "\(forged.text)")
  }

  @Test func `fields and trailers that are added, replaced and removed`() async throws {
    let scene = try Scene.ofTest()
    let up = "http://127.0.0.1:\(try Self.upstream(scene).port)"
    let twin = try await NginxTwin(
      scene,
      """
      server { listen LISTEN; add_header O out; add_trailer T out;
        location /outer { proxy_pass \(up)/close; }
        location /replaced { add_header ETag new; add_header Last-Modified ''; add_header Cache-Control c; add_header Link l; proxy_pass \(up)/new; expires max; }
        location /removed { add_header ETag ''; add_header Last-Modified x; proxy_pass \(up)/new; }
        location /error { add_header ETag '' always; add_header Last-Modified x; proxy_pass \(up)/404; }
        location /twice { add_header etag a; add_header ETAG b; return 200 x; }
        location /trailer { add_trailer A "$status-$upstream_status"; add_trailer B ""; add_trailer C c always; proxy_pass \(up)/new; }
        location /trailer/error { add_trailer A "$status"; add_trailer C c always; proxy_pass \(up)/404; }
        location /trailer/none { add_trailer A "$status"; proxy_pass \(up)/404; }
        location /trailer/text { add_trailer A "$status"; return 200 text; }
        location /trailer/empty { add_trailer A "$status"; return 200 ""; }
        location /trailer/204 { add_trailer A "$status"; return 204; }
        location /whole { chunked_transfer_encoding off; proxy_pass \(up)/close; }
        location /whole/trailer { chunked_transfer_encoding off; add_trailer A b; return 200 x; }
      }
      """)
    let paths = [
      "/outer", "/replaced", "/removed", "/error", "/twice", "/trailer", "/trailer/error", "/trailer/none",
      "/trailer/text", "/trailer/empty", "/trailer/204", "/whole", "/whole/trailer",
    ]
    for path in paths { try await twin.compare(NginxTwin.get(path)) }
    for path in ["/trailer", "/trailer/text"] {
      try await twin.compare("HEAD \(path) HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
      try await twin.compare("GET \(path) HTTP/1.0\r\nHost: h\r\n\r\n")
    }
    try await twin.compare("GET /whole HTTP/1.1\r\nHost: h\r\n\r\n")
  }

  /// nginx has these since 1.29.3; Debian's is older.
  @Test func `what an inner level gets of the outer lines`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); add_header A 1; add_trailer X 1;
        location /on { add_header B 2; return 200 x; }
        location /merge { add_header_inherit merge; add_trailer_inherit merge; add_header B 2; add_trailer Y 2; return 200 x; }
        location /off { add_header_inherit off; add_trailer_inherit off; return 200 x; }
      }
      """)
    func ask(_ path: String) async throws -> [String] {
      try await scene.talk(port) { wire in
        try wire.write(NginxTwin.get(path))
        let response = try wire.response()
        return (response.fields.filter { ["A", "B"].contains($0.name) } + response.trailers).map { $0.name }
      }
    }
    #expect(try await ask("/on") == ["B", "X"])
    #expect(try await ask("/merge") == ["A", "B", "X", "Y"])
    #expect(try await ask("/off") == [])
  }
}

extension `Fields of responses` {
  @Test func `cookies and redirects of the upstream are rewritten`() async throws {
    let scene = try Scene.ofTest()
    let cookies = [
      "a=b; Domain=.one.test; Path=/x/y", "a=b;domain=One.Test;path=/x",
      "A=b; Secure; HttpOnly; SameSite=Lax; Max-Age=5",
      "c=d", "a", "one=1; domain=two.test; path=/z; secure", "a=b=c; Domain = one.test ; Expires=x",
      "a=\"x; y\"; domain=one.test;", "; domain=one.test", "",
    ]
    let places = [
      "http://up.test/one/two", "http://UP.test/x", "/rel/x", "http://other.test/", "https://v.test:80/q?x",
    ]
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        let number = Int(request.target.drop { $0 != "n" }.dropFirst(2).prefix { $0.isNumber }) ?? 0
        if request.target.hasPrefix("/place") {
          let place = places[number]
          try wire.answer(status: "302 Found", fields: ["Location: \(place)", "Refresh: 5; url=\(place)"])
        } else {
          try wire.answer("ok", fields: ["Set-Cookie: \(cookies[number])"])
        }
      }
    }
    let pass = "proxy_pass http://127.0.0.1:\(upstream.port)/;"
    let twin = try await NginxTwin(
      scene,
      #"""
      server { listen LISTEN;
        location /1/ { \#(pass) proxy_cookie_domain one.test new.test; proxy_cookie_path /x /new; }
        location /2/ { \#(pass) proxy_cookie_domain ~^\.?(?<d>[a-z]+)\.test$ $d.new; proxy_cookie_path ~^/(.)/ /$1$1/; proxy_cookie_path ~*^/X$ /$arg_p; }
        location /3/ { \#(pass) proxy_cookie_flags a secure httponly samesite=strict; proxy_cookie_flags ~^o nosecure samesite=none; proxy_cookie_flags c $arg_f; }
        location /4/ { \#(pass) proxy_cookie_flags a nosecure nohttponly nosamesite; proxy_cookie_domain .one.test $host; }
        location /7/ { \#(pass) proxy_cookie_domain one.test .new.test; }
        location /8/ { \#(pass) proxy_cookie_domain ~one .new.test; }
        location /5/ { \#(pass) proxy_cookie_flags off; proxy_cookie_domain off; }
        location /6/ { \#(pass) proxy_redirect ~^http://up\.test/(.*)$ http://new.test/$1?; proxy_redirect ~*^http://up\.test(/.*) $1; proxy_redirect https://$arg_h/ /; proxy_redirect /rel /abs; }
      }
      """#)
    for location in [1, 2, 3, 4, 5, 7, 8] {
      for number in cookies.indices {
        try await twin.compare(NginxTwin.get("/\(location)/cookie?n=\(number)&p=q&f=secure"))
      }
    }
    for number in places.indices { try await twin.compare(NginxTwin.get("/6/place?n=\(number)&h=v.test:80")) }
  }
}
