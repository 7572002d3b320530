import ConfigurationSupport
@testable import Features
@testable import Forward
@testable import Language
import Observability
import Patterns
import Testing
@testable import Traffic

/// A server whose lines begin in line 2, column 1.
private func server(_ lines: String) -> LoadedText { LoadedText("http { server { listen 80;\n\(lines)\n} }") }

private func locations(_ lines: String) -> [LocationSettings] {
  server(lines).settings?.http.servers.first?.root.locations ?? []
}

@Suite struct LocationTests {
  @Test func `a location is a prefix, exact, a regular expression or named, with the modifier apart or glued`() {
    let text = ["/a", "= /b", "=/c", "^~ /d", "^~/e", "~ ^/f", "~^/g", "~* /h", "~*/i", "@j"]
    let kinds = locations(text.map { "location \($0) { return 204; }" }.joined(separator: "\n")).map {
      switch $0.match {
      case .prefix: "prefix \($0.match.spelling)"
      case .prefixNoRegex: "^~ \($0.match.spelling)"
      case .exact: "= \($0.match.spelling)"
      case .regex(let pattern, _): "~ \(pattern.pattern)"
      case .named(let name): "@ \(name)"
      }
    }
    #expect(
      kinds == ["prefix /a", "= /b", "= /c", "^~ /d", "^~ /e", "~ ^/f", "~ ^/g", "~ /h", "~ /i", "@ j"])
  }

  @Test(arguments: [
    (
      "location /a { return 204; }\nlocation ^~ /a { return 204; }",
      "3:1 duplicate location \"/a\" | the first is at /etc/x.conf:2:1"
    ),
    (
      "location = /a { return 204; location /a/b { return 204; } }",
      "2:29 location \"/a/b\" cannot be inside the exact location \"/a\""
    ),
    ("location /a/ { return 204; location /b { return 204; } }", "2:28 location \"/b\" is outside location \"/a/\""),
    (
      "location @a { return 204; location /b { return 204; } }",
      "2:27 location \"/b\" cannot be inside the named location \"@a\""
    ),
    (
      "location /a { return 204; location @b { return 204; } }",
      "2:27 named location \"@b\" can be on the server level only"
    ),
    ("location !~ /a { return 204; }", "2:10 invalid location modifier \"!~\" | one of =, ^~, ~ and ~*"),
    (
      "location api { return 204; }",
      "2:10 warning: location \"api\" matches no request: a path begins with \"/\" | write \"/api\""
    ),
    (
      "location \\.php$ { return 204; }",
      "2:10 warning: location \"\\.php$\" matches no request: a path begins with \"/\" | a regular expression needs \"~\" before it"
    ),
    (
      "location /a%20b { return 204; }",
      "2:10 warning: location \"/a%20b\" matches no request: paths are compared decoded | write the character itself, and quote a blank"
    ),
    (
      "location / { }",
      "2:1 warning: this location responds to every request with 404 | it has no proxy_pass, no return and no root"
    ),
    // Nobody knows what the folder was meant to hold.
    (
      "location / { root $arg_x; }",
      "2:19 \"root\" begins with a variable: a request could choose any folder | begin with a folder: root /srv/$host;"
    ),
    (
      "location / { metrics; proxy_pass http://127.0.0.1; }",
      "2:14 \"metrics\" beside \"proxy_pass\": a location can have only one content handler | use a separate location; proxy_pass is at /etc/x.conf:2:23"
    ),
    (
      "error_page 502 @sory; location @sorry { return 503; }",
      "2:16 the error page is \"@sory\", which is not a location of the server | location @sory { … }, in the server block at /etc/x.conf:1:8"
    ),
    (
      "root /srv; location / {\n  try_files /x\n    @sory; }",
      "4:5 `try_files` ends in \"@sory\", which is not a location of the server | location @sory { … }, in the server block at /etc/x.conf:1:8"
    ),
  ])
  func `what a location can't be is told at its place`(lines: String, problem: String) {
    #expect(server(lines).problems.contains(problem), "\(server(lines).problems)")
  }

  @Test(arguments: [
    ("location / { auth_basic x; auth_basic_user_file u; return 403; }", "auth_basic", "asks for a password", "2:52"),
    ("location / { return 200 x; auth_basic x; auth_basic_user_file u; }", "auth_basic", "asks for a password", "2:14"),
    ("auth_basic x; auth_basic_user_file u; location / { return 200 x; }", "auth_basic", "asks for a password", "2:52"),
    ("auth_basic x; auth_basic_user_file u; return 200 x;", "auth_basic", "asks for a password", "2:39"),
    ("location / { deny all; return 301 /x; }", "deny", "is judged", "2:24"),
    ("deny all; location / { return 200 x; }", "deny", "is judged", "2:24"),
  ])
  func `a return that answers before the password or the address is looked at is told`(
    lines: String, name: String, act: String, place: String
  ) {
    let told =
      "\(place) warning: \"return\" answers before \"\(name)\" \(act): every client gets this response, as in nginx"
    #expect(server(lines).problems.contains { $0.hasPrefix(told) }, "\(server(lines).problems)")
  }

  @Test(arguments: [
    "auth_basic x; auth_basic_user_file u; location / { auth_basic off; return 200 x; }",
    "auth_basic x; auth_basic_user_file u; location / { return 301 /x; }",
    "auth_basic x; auth_basic_user_file u; location / { return https://a/; }",
    "location / { auth_basic x; auth_basic_user_file u; proxy_pass http://127.0.0.1; }",
    "deny all; location / { allow all; return 200 x; }", "deny all; location / { return 404; }",
    "location / { return 200 x; }",
  ])
  func `a return where nobody is asked, or that gives nothing away, is not`(lines: String) {
    #expect(!server(lines).problems.contains { $0.contains("answers before") }, "\(server(lines).problems)")
  }

  @Test func `a location and an exact one of the same path are two`() {
    #expect(server("location /a { return 204; } location = /a { return 204; }").problems == [])
  }

  @Test func `a server without location and return is warned of`() {
    #expect(
      server("").problems == [
        "1:8 warning: this server responds to every request with 404 | it has no location, no return and no root"
      ])
    #expect(server("root $arg_x;").problems.count == 1)
  }

  @Test func `nested locations stand in their outer one and inherit from it`() throws {
    let outer = try #require(
      locations("client_max_body_size 5m; location /a/ { send_timeout 7s; location ~ x$ { deny all; } }").first)
    let inner = try #require(outer.locations.first)
    #expect(inner.limits.sendTimeout == 7000 && inner.limits.maxBodySize == 5 << 20)
    #expect(inner[Access.self]?.rules.count == 1 && outer[Access.self] == nil)
  }

  @Test func `lists are inherited whole or not at all`() throws {
    let loaded = LoadedText(
      """
      http { add_header A 1; add_header B 2; error_page 404 /x; deny 10.0.0.0/8;
      server { listen 80; allow all; location / { return 204; }
      location /c { add_header C 3 always; error_page 500 /y; return 204; } } }
      """)
    let locations = try #require(loaded.settings?.http.servers.first?.root.locations)
    #expect(
      locations.map { ($0[AddHeader.self]?.fields ?? []).map { String(decoding: $0.name, as: UTF8.self) } } == [
        ["A", "B"], ["C"],
      ])
    #expect(locations.map { $0[ErrorPages.self]?.pages.map(\.status) } == [[404], [500]])
    #expect(locations.map { $0[Access.self]?.rules.map(\.allows) } == [[true], [true]])
    #expect(locations[1][AddHeader.self]?.fields.first?.always == true)
  }

  @Test(arguments: [
    ("return 204;", ReturnSettings(status: 204, content: .standard)),
    ("return 200 ok;", ReturnSettings(status: 200, content: .text(Template(literal: "ok")))),
    ("return 301 /x;", ReturnSettings(status: 301, content: .redirect(Template(literal: "/x")))),
    ("return https://a/;", ReturnSettings(status: 302, content: .redirect(Template(literal: "https://a/")))),
    ("return 444;", ReturnSettings(status: 444, content: .standard)),
    ("return 404 https://a/;", ReturnSettings(status: 404, content: .text(Template(literal: "https://a/")))),
  ])
  func `return has nginx's forms`(line: String, expected: ReturnSettings) {
    #expect(locations("location / { \(line) }").first?[Rewrite.self]?.steps.map(\.returned) == [expected])
  }

  @Test(arguments: [
    (
      "return ok;",
      "2:20 invalid return code \"ok\" | return CODE [TEXT], return CODE URL, or a URL that begins with http://, https:// or $scheme"
    ),
    ("return 1000;", "2:20 invalid return code \"1000\" | a status of HTTP, 200 to 599, or 444"),
    ("return 301;", "2:13 warning: `return 301` without a URL sends no Location field | return 301 URL;"),
    (
      "add_header \"a b\" c; return 204;",
      "2:24 invalid field name \"a b\" in \"add_header\" directive | letters, digits, \"-\" and \"_\", without a colon"
    ),
    (
      "add_header A \"x\\r\\nB: y\"; return 204;",
      "2:26 a control character in the value of \"A\" | a field is one line"
    ),
    ("add_header A b c; return 204;", "2:28 invalid parameter \"c\" | \"always\", or quotes around the value"),
    (
      "error_page 200 /x; return 204;",
      "2:24 invalid value \"200\" in \"error_page\" directive | value must be between 300 and 599"
    ),
    ("error_page 404 =x /x; return 204;", "2:28 invalid value \"=x\" in \"error_page\" directive | = or =STATUS"),
    (
      "keepalive_timeout 1x; return 204;",
      "2:31 invalid value \"1x\" in \"keepalive_timeout\" directive | it must be \(Expected.milliseconds)"
    ),
  ])
  func `what an answer can't be is told at its place`(line: String, problem: String) {
    #expect(server("location / {\(line) }").problems == [problem])
  }

  @Test func `set and captures make variables that any template may use, before or after`() throws {
    let loaded = server(
      "location / { return 200 \"$tenant${x}$1\"; } location ~ ^/(?<tenant>a) { set $X $tenant; return 204; }")
    let http = try #require(loaded.settings?.http)
    #expect(http.slots == 2)
    let first = try #require(http.servers.first?.root.locations.first?[Rewrite.self]?.steps.first)
    #expect(
      first.returned
        == ReturnSettings(
          status: 200, content: .text(Template([.variable(.slot(0)), .variable(.slot(1)), .variable(.capture(1))]))))
  }

  @Test(arguments: [
    ("return 200 $hots;", "2:25 unknown \"hots\" variable | did you mean \"$host\"?"),
    (
      "return 200 $;",
      "2:25 invalid variable name in \"$\" | write a variable's name after \"$\"; a literal \"$\" is not possible"
    ),
    ("return 200 \"${host\";", "2:25 the closing bracket in \"host\" variable is missing | write ${host}"),
    ("return 200 $uid_got;", "2:25 `$uid_got` is nginx's, but not supported yet"),
    (
      "set $host x; return 204;",
      "2:18 the duplicate \"host\" variable | nginx has this variable itself; use another name"
    ),
    ("set x y; return 204;", "2:18 invalid variable name \"x\" | expected: set $NAME VALUE;"),
  ])
  func `a variable that is none is told at its place`(line: String, problem: String) {
    #expect(server("location / { \(line) }").problems == [problem])
  }
}

extension RewriteStep {
  fileprivate var returned: ReturnSettings? { if case .return(let settings) = self { settings } else { nil } }
}
