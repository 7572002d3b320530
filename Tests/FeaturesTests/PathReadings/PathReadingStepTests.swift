import Bytes
import ConfigurationSupport
@testable import Features
@testable import Forward
import HTTP
import TestSupport
import Testing
@testable import Traffic

@Suite struct `Readings of a path and who may enter` {
  private static let closed = "allow 10.0.0.0/8; deny all;"
  private static let pass = "proxy_pass http://127.0.0.1:9;"

  /// A server with an open location and a guarded one.
  private static func guarded(_ guardLines: String = closed, open: String = "", server: String = "") -> String {
    "server { listen 80; \(server) location / { \(pass) \(open) } location /admin/ { \(pass) \(guardLines) } }"
  }

  /// The status of the refusal; nil if the request went to the upstream.
  private func refusal(_ http: String, _ target: String, method: String = "GET", _ fields: String...) throws -> UInt16?
  {
    try refusal(Rig(http), target, method: method, fields)
  }

  private func refusal(_ rig: Rig, _ target: String, method: String = "GET", _ fields: [String] = []) throws -> UInt16?
  {
    let before = rig.upstreams.count
    let stream = try rig.ask(["\(method) \(target) HTTP/1.1", "Host: h"] + fields)
    if rig.upstreams.count > before {
      #expect(stream.status == nil)
      return nil
    }
    let status: UInt16 = try #require(stream.status)
    return status
  }

  static let attacks = [
    "/admin;x/secret", "/;/admin/secret", "/x/..;/admin/secret", "/admin\\secret", "/admin%5csecret", "/ADMIN/secret",
    "/admin%20/secret", "/admin./secret", "/x/%252e%252e/admin/secret", "/admin%3Bx/secret", "/admin%252fsecret",
    "/AdMiN;x\\secret", "/%2561DMIN./secret", "/x/;/../admin/secret", "/admin/%2e%2e/secret", "/admin//../secret",
    "/admin;x", "/ADMIN/",
  ]

  @Test(arguments: attacks) func `a path that can be read as a guarded one needs what that needs`(path: String) throws {
    #expect(try refusal(Self.guarded(), path) == 403, "\(path)")
    // Whom the guarded location admits goes on, and the path as it is.
    let rig = try Rig(Self.guarded("allow 192.0.2.0/24; deny all;"))
    #expect(try rig.forwarded("GET \(path) HTTP/1.1", "Host: h").first == "GET \(path) HTTP/1.1")
  }

  @Test(arguments: [
    "/", "/shop;jsessionid=1", "/Shop/A.html", "/a%20b", "/a.", "/100%25", "/x//y", "/a\\b", "/adminx;a/",
    "/x/admin;y/",
    "/administrator", "/x;/admin2/", "/a;b/../c", "/%252e%252e",
  ])
  func `a path that no reading leads to a guarded location goes on as it is`(path: String) throws {
    let rig = try Rig(Self.guarded())
    #expect(try rig.forwarded("GET \(path) HTTP/1.1", "Host: h").first == "GET \(path) HTTP/1.1")
  }

  @Test(arguments: [
    "return 403;", "return 404;", "internal;", "if ($arg_key != right) { return 403; }",
    "limit_except POST { deny all; }",
    "satisfy any; allow 10.0.0.0/8; deny all; auth_request off;",
  ])
  func `each thing that keeps clients out counts`(lines: String) throws {
    #expect(try refusal(Self.guarded(lines), "/admin;x/secret") == 403, "\(lines)")
    #expect(try refusal(Self.guarded(lines), "/shop;x") == nil)
  }

  @Test func `a method, a query and an address that the guarded location admits are admitted`() throws {
    let except = Self.guarded("limit_except POST { deny all; }")
    #expect(try refusal(except, "/admin;x/", method: "POST", "Content-Length: 0") == nil)
    let keyed = Self.guarded("if ($arg_key != right) { return 403; }")
    #expect(try refusal(keyed, "/admin;x/?key=right") == nil)
    #expect(try refusal(Self.guarded("satisfy any; allow 192.0.2.1; deny all;"), "/admin;x/") == nil)
    // The content of the guarded location is not asked for.
    #expect(try refusal(Self.guarded("allow 192.0.2.1; deny all; client_max_body_size 1;"), "/admin;x/") == nil)
  }

  @Test func `satisfy any of the open location admits nobody to the guarded one`() throws {
    let http = Self.guarded(open: "satisfy any; allow all;")
    #expect(try refusal(http, "/admin;x/") == 403)
  }

  @Test(
    arguments: [
      ("off", "/admin;x/", nil), ("off", "/ADMIN/", nil), ("case", "/admin;x/", nil), ("case", "/ADMIN/", 403),
      ("parameters", "/admin;x/", 403), ("parameters", "/ADMIN/", nil), ("parameters case", "/ADMIN;x/", 403),
      ("parameters", "/ADMIN;x/", nil), ("backslash", "/admin\\", 403), ("decode", "/admin%252f", 403),
      ("dots", "/admin./", 403), ("literal", "/admin/../", 403), ("dots", "/admin/../", nil),
    ] as [(String, String, UInt16?)])
  func `path_readings says which of them count, by location`(words: String, path: String, status: UInt16?) throws {
    #expect(try refusal(Self.guarded(open: "path_readings \(words);"), path) == status, "\(words) \(path)")
    #expect(try refusal(Self.guarded(server: "path_readings \(words);"), path) == status)
  }

  @Test(arguments: [
    // Regular expressions, nested and exact locations, and those that differ by case alone.
    ("location ~ ^/api/v[0-9]/admin { C } location / { P }", "/API/v1/admin"),
    ("location ~ \\.php$ { C } location / { P }", "/x.php;y"), ("location ~ \\.php$ { C } location / { P }", "/x.PHP"),
    ("location = /admin { C } location / { P }", "/admin;x"), ("location = /admin { C } location / { P }", "/Admin"),
    ("location /a/ { P location /a/admin/ { C } }", "/a/admin;x/"),
    ("location /Admin/ { C } location / { P }", "/admin/x"),
    ("location /a/ { P } location / { C }", "/a/..;/x"), ("location /a/ { P } location / { C }", "/a/..%5cx"),
    ("location /A/ { P } location /a/ { C }", "/A/x"), ("location ^~ /admin/ { C } location ~ . { P }", "/admin;x/"),
    ("location / { P } location ~* ^/a/x { C }", "/a;/x"),
    ("location ~ ^/x { P } location @n { C } location /admin/ { C }", "/x/..;/admin/"),
  ])
  func `locations of all kinds are found`(locations: String, path: String) throws {
    let text = locations.replacing("{ P", with: "{ \(Self.pass)").replacing(
      "{ C", with: "{ \(Self.pass) \(Self.closed)")
    #expect(try refusal("server { listen 80; \(text) }", path) == 403, "\(locations)")
    #expect(try refusal("server { listen 80; path_readings off; \(text) }", path) == nil)
  }

  @Test func `the path counts that goes to the upstream: after rewriting, by a name, from an error page`() throws {
    func status(_ lines: String, _ path: String) throws -> UInt16? {
      try refusal("server { listen 80; \(lines) location /admin/ { \(Self.pass) \(Self.closed) } }", path)
    }
    let old = "location / { \(Self.pass) } location /old/ { rewrite ^/old/(.*)$ /$1 last; }"
    #expect(try status(old, "/old/admin;x/secret") == 403)
    #expect(try status(old, "/old/shop;x") == nil)
    #expect(try status("rewrite ^/old/(.*)$ /$1; location / { \(Self.pass) }", "/old/ADMIN/") == 403)
    // As in nginx, `break` stays: the configuration says which path goes out.
    let stays = "location /pub/ { rewrite ^/pub/(.*)$ /$1 break; \(Self.pass) }"
    #expect(try status(stays, "/pub/admin;x/") == nil)
    #expect(try status(stays, "/pub/..;/admin/x") == 403)
    let named = "location / { error_page 418 = @all; return 418; } location @all { \(Self.pass) }"
    #expect(try status(named, "/admin;x/") == 403)
    #expect(try status(named, "/shop;x") == nil)
    let uri = "location /app/ { proxy_pass http://127.0.0.1:9/; }"
    #expect(try status(uri, "/app/..;/admin/x") == 403)
    #expect(try status("location / { if ($arg_a) { \(Self.pass) } \(Self.pass) }", "/admin;x/?a=1") == 403)
    #expect(try status("location / { limit_except POST { allow all; } \(Self.pass) }", "/admin;x/") == 403)
    #expect(try status("merge_slashes off; location / { \(Self.pass) }", "//admin/x") == 403)
  }

  @Test func `a page for the refusal is shown, and no request goes out for it`() throws {
    let rig = try Rig(
      """
      server { listen 80; error_page 403 /no.html; location = /no.html { return 200 no; }
        location / { \(Self.pass) } location /admin/ { \(Self.closed) } }
      """)
    let stream = try rig.ask("GET /admin;x/ HTTP/1.1", "Host: h")
    #expect(stream.status == 403 && stream.body == "no" && rig.upstreams.isEmpty)
    // A named location that would pass it on asks again.
    let passing = try Rig(
      """
      server { listen 80; error_page 403 @erp; location @erp { \(Self.pass) }
        location / { \(Self.pass) } location /admin/ { \(Self.closed) } }
      """)
    #expect(try passing.ask("GET /admin;x/ HTTP/1.1", "Host: h").status == 403)
    #expect(passing.upstreams.isEmpty)
  }

  @Test func `who must give a password is asked for it`() throws {
    let http = Self.guarded("auth_basic Admins; auth_basic_user_file /nowhere/users;")
    let stream = try Rig(http).ask("GET /admin;x/ HTTP/1.1", "Host: h")
    #expect(stream.status == 401 && stream.head.contains("WWW-Authenticate: Basic realm=\"Admins\""))
  }

  @Test(arguments: [(204, nil), (403, 403), (401, 401), (500, 500)] as [(Int, UInt16?)])
  func `whom an upstream must admit is asked for, once`(answer: Int, status: UInt16?) throws {
    let rig = try Rig(
      """
      server { listen 80; location / { \(Self.pass) }
        location /admin/ { auth_request /ask; \(Self.pass) }
        location = /ask { internal; proxy_pass http://127.0.0.1:8; } }
      """)
    let stream = try rig.ask("GET /ADMIN;x/ HTTP/1.1", "Host: h")
    let asked = try rig.upstream
    asked.open()
    #expect(asked.sent.hasPrefix("GET /ask HTTP/1.") && stream.status == nil)
    asked.answer("HTTP/1.1 \(answer) X\r\nContent-Length: 0\r\n\r\n", ends: true)
    #expect(stream.status == status)
    #expect(rig.upstreams.count == (status == nil ? 2 : 1))
    if status == nil {
      try rig.upstream.open()
      #expect(try rig.upstream.sent.hasPrefix("GET /ADMIN;x/ "))
    }
  }

  @Test func `the log has both readings and the location`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig("error_log \(scene.path("error.log")) info; \(Self.guarded())")
    _ = try rig.ask("GET /admin;x/secret HTTP/1.1", "Host: h")
    let words = "access forbidden: \"/admin;x/secret\" can be read as \"/admin/secret\", and location /admin/"
    #expect(scene.text("error.log").contains(words))
  }

  @Test func `locations that admit the same clients cost nothing`() throws {
    for text in [
      "server { listen 80; \(Self.closed) location / { \(Self.pass) } location /admin/ { \(Self.pass) } }",
      "server { listen 80; location / { \(Self.pass) } location /admin/ { \(Self.pass) } }",
      Self.guarded(server: "path_readings off;"),
      "server { listen 80; if ($http_x) { return 403; } location / { \(Self.pass) \(Self.closed) } }",
      "server { listen 80; location / { \(Self.pass) } location @n { \(Self.closed) } }",
    ] {
      let rig = try Rig(text)
      let root = rig.live.servers[0].root
      #expect(root.inner.all.allSatisfy { $0.steps.postAccess.isEmpty }, "\(text)")
    }
    let watched = try Rig(Self.guarded()).live.servers[0].root
    #expect(watched.inner.all.allSatisfy { $0.steps.postAccess.count == 1 })
  }

  @Test func `a word that is no reading is an error`() {
    for words in ["all_of_it", "off case", "parameters off"] {
      #expect(LoadedText("http { server { listen 80; path_readings \(words); return 204; } }").errors.count == 1)
    }
  }
}
