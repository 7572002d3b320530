import Glibc
import TestSupport
import Testing

/// Files beside nginx: the same folder and the same requests.
@Suite(.staged) struct `Small files` {
  /// A folder with files of all kinds.
  private static func site(_ scene: Scene) throws -> String {
    let folder = try scene.makeFolder("www")
    for name in ["www/dir", "www/dir/sub", "www/empty", "www/i", "beside", "www/i-secret"] {
      _ = try scene.makeFolder(name)
    }
    let files = [
      "index.html": "<h1>index</h1>\n", "dir/index.html": "<p>a page of some length</p>\n", "a.css": "body {}\n",
      "r.txt": "0123456789abcdefghijklmnopqrstuvwxyz", "zero.txt": "", ".hidden": "dot", "a b.txt": "x",
      "a?b.txt": "q", "UP.HTML": "UP", "404.html": "no such page\n", "50x.html": "broken\n", "i/one.txt": "one",
      "i-secret/x": "secret", "dir/index.php": "php",
    ]
    for (name, text) in files { try scene.write("www/\(name)", text: text) }
    try scene.write("beside/secret", text: "secret")
    try scene.write("www/most.bin", [UInt8](repeating: 7, count: 1 << 20))
    return folder
  }

  private static func configuration(_ www: String) -> String {
    """
    include /etc/nginx/mime.types; default_type application/octet-stream;
    server { listen LISTEN; root \(www);
      location / { index none.html index.html; }
      location /i/ { alias \(www)/i/; }
      location ~ ^/re/(.*)$ { alias \(www)/$1; }
      location = /exact { alias \(www)/r.txt; }
      location /try/ { try_files $uri $uri/ /r.txt; }
      location /try2/ { try_files $uri /404.html =404; }
      location /try3/ { try_files /nothing @named; }
      location @named { internal; return 200 "named $uri $args"; }
      location /try4/ { alias \(www)/; try_files $uri $uri/ =410; }
      location /try5/ { try_files $uri /dir/index.html?x=$uri; }
      location /ep/ { error_page 404 405 /404.html; }
      location /ep200/ { error_page 404 =200 /404.html; }
      location /in/ { internal; }
      location /noetag/ { alias \(www)/; etag off; if_modified_since before; max_ranges 1; }
      location /norange/ { alias \(www)/; max_ranges 0; if_modified_since off; }
      location /return.css { return 200 "x"; }
      location /return { default_type application/json; return 200 "{}"; }
      location /none { default_type ""; return 200 "x"; }
      location /return404 { return 404 "text"; }
      location /up/ { proxy_intercept_errors on; error_page 502 /50x.html; proxy_pass http://127.0.0.1:1; }
      location /if/ { if ($arg_x) { root \(www)/dir; } }
      location /variables { add_header R $document_root; add_header F $request_filename; return 204; }
      location /abs/ { alias \(www)/empty/; index x.html /r.txt; }
      location /absvar/ { alias \(www)/empty/; index x.html /$arg_f; }
      location /modified/ { alias \(www)/; add_header Last-Modified "Sun, 06 Nov 1994 08:49:37 GMT"; }
      location /unmodified/ { alias \(www)/; add_header Last-Modified ""; add_header ETag '"x"'; }
      location /types/ { alias \(www)/; types { a/b txt; } default_type c/d; }
      location /fields/ { alias \(www)/; expires 1d; add_header X $status; add_header ETag mine; }
    }
    """
  }

  private static let paths = [
    "/", "/index.html", "/dir", "/dir?a=b", "/dir/", "/dir/?x=y", "/empty/", "/empty", "/a.css", "/r.txt", "/zero.txt",
    "/.hidden", "/a%20b.txt", "/a%3Fb.txt", "/UP.HTML", "/most.bin", "/missing", "/missing/", "/r.txt/", "/r.txt/x",
    "/%00", "/..", "/../x", "/dir/../r.txt", "/dir/%2e%2e/r.txt", "/dir%2f..%2fr.txt", "/dir//index.html", "//dir/",
    "/i/one.txt", "/i/", "/re/r.txt", "/re/dir", "/re/", "/exact", "/exact/", "/try/", "/try/x", "/try/dir", "/try2/x",
    "/try3/x?y=z", "/try4/i/one.txt", "/try4/none", "/try4/dir/", "/try4/dir", "/try4/", "/try5/x", "/ep/none",
    "/ep200/none", "/in/r.txt", "/return", "/return.css", "/none", "/return404", "/up/x", "/if/?x=1",
    "/if/index.html?x=1",
    "/variables", "/abs/", "/absvar/?f=r.txt", "/absvar/?f=none", "/absvar/", "/types/r.txt", "/types/a.css",
    "/fields/r.txt",
  ]

  @Test func `every path, by GET and other methods`() async throws {
    let scene = try Scene.ofTest(), www = try Self.site(scene)
    let twin = try await NginxTwin(scene, Self.configuration(www))
    let long = String(repeating: "x", count: 300)
    for path in Self.paths + ["/\(long)", "/\(long)/"] where !path.hasPrefix("/fields") {
      try await twin.compare(NginxTwin.get(path))
    }
    try await twin.compareInOneSecond(NginxTwin.get("/fields/r.txt"))
    for path in ["/r.txt", "/a.css", "/zero.txt", "/try/x", "/dir/"] {
      try await twin.compare("HEAD \(path) HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
      try await twin.compare("GET \(path) HTTP/1.0\r\n\r\n")
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
      for path in ["/r.txt", "/", "/dir", "/dir/", "/missing", "/ep/none", "/ep/404.html", "/try/x", "/empty/"] {
        try await twin.compare(
          "\(method) \(path) HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
      }
    }
  }

  @Test func `ranges`() async throws {
    let scene = try Scene.ofTest(), www = try Self.site(scene)
    let twin = try await NginxTwin(scene, Self.configuration(www))
    let ranges = [
      "0-", "0-0", "5-9", "-5", "-0", "-100", "36-", "35-", "35-100", "0-35", "0-36", "100-200", "a", "", "5-4",
      "1-2,5-6",
      "0-0,-1", "0-,0-", "0-10,5-20,30-", "1-2, 4-5 ", "1 - 2", "-", "0-99999999999999999999", "99999999999999999999-",
      "0-0,1-1,2-2,3-3", "0-35,0-0", "36-40,0-1", "9223372036854775807-", "0-9223372036854775807", ",", "0-1,",
    ]
    for range in ranges {
      for path in ["/r.txt", "/noetag/r.txt", "/norange/r.txt", "/zero.txt"] {
        try await twin.compare(NginxTwin.get(path, "Range: bytes=\(range)"))
      }
    }
    for field in ["BYTES=0-1", "lines=0-1", "bytes 0-1"] {
      try await twin.compare(NginxTwin.get("/r.txt", "Range: \(field)"))
    }
    for path in ["/ep/none", "/ep200/none", "/dir/", "/try/x", "/fields/r.txt"] {
      try await twin.compareInOneSecond(NginxTwin.get(path, "Range: bytes=0-1"))
    }
    try await twin.compare("HEAD /r.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\nRange: bytes=1-3\r\n\r\n")
  }

  @Test func `conditions`() async throws {
    let scene = try Scene.ofTest(), www = try Self.site(scene)
    let twin = try await NginxTwin(scene, Self.configuration(www))
    let answer = try await twin.ask(NginxTwin.get("/r.txt"))
    func field(_ name: String) throws -> String {
      let line = try #require(answer.split(separator: "\n").first { $0.hasPrefix(name + ": ") })
      return String(line.dropFirst(name.count + 2))
    }
    let (tag, time) = try (field("ETag"), field("Last-Modified"))
    let dates = [
      time, "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 2044 08:49:37 GMT", "junk", "Sunday, 06-Nov-94 08:49:37 GMT",
      "Sun Nov  6 08:49:37 1994", "Sun Nov 16 08:49:37 1994", "Tue, 31 Feb 2044 08:49:37 GMT",
    ]
    for date in dates {
      for name in ["If-Modified-Since", "If-Unmodified-Since"] {
        for path in ["/r.txt", "/noetag/r.txt", "/norange/r.txt"] {
          try await twin.compare(NginxTwin.get(path, "\(name): \(date)"))
        }
      }
      for path in ["/r.txt", "/modified/r.txt", "/unmodified/r.txt"] {
        try await twin.compare(NginxTwin.get(path, "If-Range: \(date)", "Range: bytes=1-2"))
      }
    }
    let tags = [
      tag, "\"x\"", "*", "W/\(tag)", "\"x\", \(tag)", "\(tag),\"x\"", "\"x\",W/\(tag) ,\"y\"", "\(tag)x", "\"x\"\(tag)",
      String(tag.dropLast()), "\"\(String(repeating: "y", count: 40))\",\(tag)",
    ]
    for value in tags {
      for name in ["If-Match", "If-None-Match"] {
        try await twin.compare(NginxTwin.get("/r.txt", "\(name): \(value)"))
        try await twin.compare(NginxTwin.get("/noetag/r.txt", "\(name): \(value)"))
        try await twin.compare(NginxTwin.get("/r.txt", "\(name): \(value)", "If-Modified-Since: \(time)"))
      }
      for path in ["/r.txt", "/modified/r.txt", "/unmodified/r.txt"] {
        try await twin.compare(NginxTwin.get(path, "If-Range: \(value)", "Range: bytes=1-2"))
      }
    }
    try await twin.compare(NginxTwin.get("/ep/none", "If-None-Match: *"))
    try await twin.compareInOneSecond(NginxTwin.get("/fields/r.txt", "If-None-Match: \(tag)"))
  }

  /// With nginx, the lengths of the location's prefix and of the path were taken from each other where both directives
  /// stood in one location, so that a path which had changed led outside.
  @Test func `alias with try_files: no name and no path that has changed leads beside the alias`() async throws {
    let scene = try Scene.ofTest(), www = try Self.site(scene)
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      TestSupport.configuration(
        """
        server { listen 127.0.0.1:\(port); root \(www);
          location /plain { alias \(www)/i; try_files $uri $uri/ =404; }
          location /named/ { alias \(www)/i/; try_files $arg_p =404; }
          location /a-long-prefix/ { alias \(www)/i/; rewrite ^ /x break; try_files $uri /one.txt =404; }
          location /a-long-name/ { alias \(www)/i/; try_files /one.txt =404; error_page 404 /x; }
          location /back/ { alias \(www)/i/; try_files $uri /plain-secret/x; }
          location = /short { alias \(www)/i/one.txt; try_files "" =404; }
        }
        """))
    func answer(_ path: String) async throws -> (status: String, text: String) {
      try await scene.talk(port) { wire in
        try wire.write("GET \(path) HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        let text = String(decoding: try wire.readToEnd(), as: UTF8.self)
        return (String(text.dropFirst(9).prefix(3)), text)
      }
    }
    for path in [
      "/plain-secret/x", "/plain%2d%73ecret/x", "/named/?p=-secret/x",
      "/named/?p=/../i-secret/x",
      "/named/?p=../i-secret/x", "/named/?p=/named/../i-secret/x", "/named/?p=", "/a-long-prefix/one.txt",
      "/a-long-prefix/", "/back/none", "/back/-secret/x",
    ] {
      let (status, text) = try await answer(path)
      #expect(["400", "403", "404", "500"].contains(status), "\(path): \(status)")
      #expect(!text.contains("secret\n") && !text.hasSuffix("secret") && !text.contains("root:"), "\(path): \(text)")
    }
    #expect(try await answer("/plain/one.txt").text.hasSuffix("one"))
    #expect(try await answer("/a-long-name/none").text.hasSuffix("one"))
  }

  /// `alias` is joined to what follows the location's prefix: with nginx, `/i../` leaves the folder.
  @Test func `CVE-2026-27654: no path leaves root or alias, by dots, by a name that goes on, or by a link`()
    async throws
  {
    let scene = try Scene.ofTest(), www = try Self.site(scene)
    _ = symlink("/etc", "\(www)/etc")
    _ = symlink("/etc/passwd", "\(www)/passwd")
    _ = symlink("../beside", "\(www)/beside")
    _ = symlink("r.txt", "\(www)/inner")
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      TestSupport.configuration(
        """
        server { listen 127.0.0.1:\(port); root \(www);
          location /slash { alias \(www)/i/; }
          location /plain { alias \(www)/i; }
          location ~ ^/re(.*)$ { alias \(www)/i$1; }
          location ~ ^/all/(.*)$ { alias \(www)/i/$1; }
          location /host/ { root \(www)/$http_x; }
          location /try/ { try_files /$arg_p /../beside/secret =404; }
        }
        """))
    func status(_ path: String, _ fields: String...) async throws -> String {
      try await scene.talk(port) { wire in
        try wire.write(
          (["GET \(path) HTTP/1.1", "Host: h", "Connection: close"] + fields).joined(separator: "\r\n") + "\r\n\r\n")
        let answer = String(decoding: try wire.readToEnd(), as: UTF8.self)
        #expect(!answer.contains("secret") && !answer.contains("root:"), "\(path): \(answer)")
        return String(answer.dropFirst(9).prefix(3))
      }
    }
    for path in [
      "/slash../i-secret/x", "/slash../../beside/secret", "/slash..%2f..%2fbeside/secret", "/slash%2e%2e/r.txt",
      "/all/..%2f..", "/etc/passwd", "/etc/hostname", "/passwd", "/beside/secret", "/inner", "/plain-secret/x",
      "/re/../../x", "/dir/..%2f..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "/..%5c..%5cetc/passwd",
      "/etc%2fpasswd",
      "/try/?p=../../beside/secret", "/try/?p=etc/passwd", "/%c0%ae%c0%ae/beside/secret", "/.%2e/beside/secret",
      "/passwd%00.txt", "/dir/index.html%00/../../../etc/passwd", "/slash..", "/slash../",
    ] {
      let answer = try await status(path)
      #expect(["400", "403", "404"].contains(answer), "\(path): \(answer)")
    }
    #expect(try await status("/host/x", "X: ../beside") == "403")
    #expect(try await status("/host/x", "X: ..") == "403")
    #expect(try await status("/slash/one.txt") == "200")
    #expect(try await status("/plain/one.txt") == "200")
    #expect(try await status("/all/one.txt") == "200")
    try await daemon.logged("\"/slash../i-secret/x\" would leave \"\(www)/i/\"")
    try await daemon.logged("would lead beside the alias")
    try await daemon.logged("(40: Too many levels of symbolic links)")
  }
}
