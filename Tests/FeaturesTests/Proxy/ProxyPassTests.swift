import ConfigurationSupport
@testable import Features
@testable import Forward
import Observability
import TLS
import Testing
@testable import Traffic
import Transport
import Upstream

/// A location whose lines begin in line 2, column 1.
private func location(_ lines: String, at path: String = "/a/", http: String = "") -> LoadedText {
  LoadedText("http { \(http) server { listen 80; location \(path) {\n\(lines)\n} } }")
}

private func pass(_ lines: String, at path: String = "/a/", http: String = "") -> UpstreamPass? {
  let settings = location(lines, at: path, http: http).settings
  guard let pass = settings?.http.servers.first?.root.locations.first?[UpstreamPass.self] else { return nil }
  return pass
}

@Suite struct ProxyPassTests {
  @Test func `an address makes a group of one server, the same address the same group`() throws {
    let http = try #require(
      LoadedText(
        """
        http { server { listen 80; location /a { proxy_pass http://h; } location /b { proxy_pass http://h:80/x; }
        location /c { proxy_pass http://[::1]:81; } location /d { proxy_pass http://unix:/s:/y; } } }
        """
      ).settings?.http)
    #expect(http.groups.map(\.name) == ["h", "[::1]:81", "localhost"])
    #expect(http.groups.map { $0.servers.map(\.address.description) } == [["h:80"], ["[::1]:81"], ["unix:/s"]])
  }

  @Test func `host, port and URI are nginx's`() throws {
    let plain = try #require(pass("proxy_pass http://h.example;"))
    #expect(
      plain.target.host == "h.example" && plain.target.port == "80" && plain.target.uri == nil
        && plain.target.replacedPrefix == 3)
    let ported = try #require(pass("proxy_ssl_verify off; proxy_pass https://h.example:8443/x/;"))
    #expect(
      ported.target.host == "h.example:8443" && ported.target.port == "8443" && ported.target.uri == Array("/x/".utf8))
    #expect(ported.trust.name == Template(literal: "h.example"))
    let unix = try #require(pass("proxy_pass http://unix:/s:/y;"))
    #expect(unix.target.host == "localhost" && unix.target.port == "" && unix.target.uri == Array("/y".utf8))
  }

  @Test func `an upstream block is found by name, without regard to case`() throws {
    let found = try #require(
      pass("proxy_pass http://APP/;", http: "upstream app { server 10.0.0.1; server 10.0.0.2:81 weight=3 backup; }"))
    #expect(found.target.upstream == .group(0, .http))
    #expect(found.target.host == "APP")
  }

  @Test func `variables make a template of all that follows the scheme`() throws {
    let found = try #require(pass("proxy_pass http://$host:81$request_uri;"))
    #expect(
      found.target.upstream
        == .template(
          Template([.variable(.simple(.host)), .literal(Array(":81".utf8)), .variable(.simple(.request_uri))]), .http))
    #expect(found[ResponseRewriteSettings.self]?.redirects.isEmpty == true && found.target.host == "")
  }

  @Test(arguments: ["$target", "$scheme://$host:$server_port", "http$arg_s://h", "HTTPS:/$arg_x"])
  func `a variable in place of the scheme makes a target whose values say it`(url: String) throws {
    let plain = try #require(pass("proxy_pass \(url);", http: "map $host $target { default http://h; }"))
    guard case .url = plain.target.upstream else { return #expect(Bool(false), "\(plain.target.upstream)") }
    #expect(
      plain.scheme == nil && plain.trust.tls == nil && plain[ResponseRewriteSettings.self]?.redirects.isEmpty == true)
    let verified = try #require(
      pass("proxy_ssl_verify on; proxy_pass \(url);", http: "map $host $target { default http://h; }"))
    #expect(try #require(verified.trust.tls).trust != .anybody)
  }

  @Test func `a target whose values say their scheme is warned of without trust settings, and judged with them`() {
    // Nor of whom a request chooses: `PolicyWarningTests`.
    func problems(_ lines: String) -> [String] {
      location(lines).problems.filter { !$0.contains("a request chooses the server") }
    }
    #expect(
      problems("proxy_pass $arg_x;") == [
        "2:1 warning: a request whose variables lead to an https upstream gets 502: there are no trust settings | pin its key (`sallyport pin HOST:PORT` prints the line), or write proxy_ssl_verify on, or proxy_ssl_verify off to accept any upstream"
      ])
    #expect(problems("proxy_ssl_verify off; proxy_pass $arg_x;") == [])
    #expect(
      problems("proxy_ssl_verify off; proxy_ssl_crl c.pem; proxy_pass $arg_x;").map { $0.prefix(28) } == [
        "2:23 \"proxy_ssl_crl\" without"
      ])
    #expect(problems("proxy_ssl_server_name on; proxy_pass $arg_x;").count == 1)
  }

  @Test(arguments: [
    ("/", "proxy_pass h:80;", "2:12 invalid URL prefix in \"h:80\" | it must begin with http:// or https://"),
    (
      "/", "proxy_pass ftp$arg_x://h;",
      "2:12 invalid URL prefix in \"ftp$arg_x://h\" | it must begin with http:// or https://"
    ),
    ("/", "proxy_pass http://;", "2:12 no host in \"proxy_pass\" directive: \"http://\" | ADDRESS[:PORT]"),
    (
      "/", "proxy_pass http://h:0;",
      "2:12 invalid port in \"proxy_pass\" directive: \"http://h:0\" | a port is a number from 1 to 65535"
    ),
    (
      "/", "proxy_pass http://h:x;",
      "2:12 invalid port in \"proxy_pass\" directive: \"http://h:x\" | a port is a number from 1 to 65535"
    ),
    ("/", "proxy_pass http://::1;", "2:12 no host in \"proxy_pass\" directive: \"http://::1\" | ADDRESS[:PORT]"),
    (
      "/", "proxy_pass http://unix:s;",
      "2:12 invalid socket path in \"proxy_pass\" directive: \"http://unix:s\" | unix: and an absolute path of at most 107 bytes"
    ),
    (
      "~ ^/a", "proxy_pass http://h/b;",
      "2:12 \"proxy_pass\" cannot have URI part in a regular expression location | leave out \"/b\": what would it replace?"
    ),
    (
      "@a", "proxy_pass http://h/;",
      "2:12 \"proxy_pass\" cannot have URI part in a named location | leave out \"/\": what would it replace?"
    ),
    (
      "/", "proxy_pass http://app:81;",
      "2:12 upstream \"app\" may not have port 81 in \"proxy_pass\" directive: \"http://app:81\" | the servers of the group have their own ports"
    ),
    (
      "/", "proxy_pass http://ap;",
      "2:12 warning: \"ap\" is not an upstream block; sallyport resolves it as a host name | did you mean \"app\"?"
    ),
    (
      "/", "proxy_redirect default; proxy_pass http://h$request_uri;",
      "2:1 \"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with variables | proxy_redirect off, or FROM TO"
    ),
    (
      "/", "proxy_set_header X: y; proxy_pass http://h;",
      "2:18 invalid field name \"X:\" in \"proxy_set_header\" directive | letters, digits, \"-\" and \"_\", without a colon"
    ),
    (
      "/", "proxy_buffers 8 1g; proxy_pass http://h;",
      "2:1 \"proxy_buffers\" asks for more than 1g in all | fewer or smaller buffers"
    ),
    (
      "/", "proxy_buffer_size 0; proxy_pass http://h;",
      "2:19 invalid value \"0\" in \"proxy_buffer_size\" directive | from 1 to 16m"
    ),
  ])
  func `what proxy_pass can't take is told at its place`(path: String, line: String, problem: String) {
    let loaded = location(line, at: path, http: "upstream app { server h; }")
    #expect(loaded.problems.filter { !$0.contains("a request chooses the server") } == [problem])
  }

  @Test func `fields have nginx's defaults where none of the name is set`() throws {
    func fields(_ lines: String) -> [String] {
      pass(lines + "proxy_pass http://h;")?.request.fields.map { String(decoding: $0.name, as: UTF8.self) } ?? []
    }
    #expect(fields("") == ["Host"])
    #expect(fields("proxy_set_header X a; proxy_set_header connection \"\";") == ["X", "connection", "Host"])
  }

  @Test func `hidden fields are nginx's, with those said, less those passed`() throws {
    let hidden = try #require(pass("proxy_hide_header X-Secret; proxy_pass_header SERVER; proxy_pass http://h;"))
      .response.hiddenFields
      .map { String(decoding: $0, as: UTF8.self) }
    #expect(hidden.contains("date") && hidden.contains("x-secret") && !hidden.contains("server"))
  }

  @Test func `redirects of the upstream come back to the location`() throws {
    let uri = try #require(pass("proxy_pass http://h/x/;")?[ResponseRewriteSettings.self]).redirects
    #expect(uri.map(Words.init) == [Words(from: Template(literal: "http://h/x/"), to: Template(literal: "/a/"))])
    let bare = try #require(pass("proxy_pass http://h:81;")?[ResponseRewriteSettings.self]).redirects
    #expect(bare.map(Words.init) == [Words(from: Template(literal: "http://h:81/"), to: Template(literal: "/"))])
    #expect(
      try #require(pass("proxy_redirect off; proxy_pass http://h;")?[ResponseRewriteSettings.self]).redirects.isEmpty)
  }

  @Test func `defaults are those of nginx`() throws {
    let found = try #require(pass("proxy_pass http://h;"))
    #expect(found.version == .http11 && found.buffers.collectsRequests && !found.response.interceptsErrors)
    #expect(found.timeouts == UpstreamTimeouts() && found.retry == RetrySettings() && found.trust.tls == nil)
    #expect(found.request.passesBody && found.request.passesFields && !found.request.ignoresClientAbort)
  }

  @Test func `what is said of timeouts and retries arrives`() throws {
    let found = try #require(
      pass(
        "proxy_connect_timeout 500ms; proxy_read_timeout 1m; proxy_next_upstream http_502 non_idempotent; proxy_next_upstream_tries 3; proxy_pass http://h;"
      ))
    #expect(found.timeouts.connect == 500 && found.timeouts.read == 60_000)
    #expect(found.retry.conditions == [.http502, .nonIdempotent] && found.retry.tries == 3)
    #expect(try #require(pass("proxy_next_upstream off; proxy_pass http://h;")).retry.conditions == [])
  }

  @Test func `servers of a group have their parameters`() throws {
    let http = try #require(
      location(
        "proxy_pass http://g;",
        http: "upstream g { server a:1 weight=2 max_fails=0 fail_timeout=1m max_conns=7; server b down; keepalive 4; }"
      ).settings?.http)
    let server = try #require(http.groups.first?.servers.first)
    #expect(server.weight == 2 && server.maxFails == 0 && server.failTimeout == 60 && server.maxConnections == 7)
    #expect(http.groups.first?.servers.last?.isDown == true && http.groups.first?.keepalive.connections == 4)
  }

  @Test(arguments: [
    ("upstream g { }", "2:1 no servers are inside upstream \"g\" | server ADDRESS:PORT;"),
    (
      "upstream g { server a backup; }",
      "2:1 upstream \"g\" has only backup servers | at least one server must not be a backup"
    ),
    (
      "upstream g { server http://a; }",
      "2:21 invalid host in upstream \"http://a\" | leave out \"http://\": proxy_pass names the protocol"
    ),
    ("upstream g { server a weight=0; }", "2:23 invalid parameter \"weight=0\" | a number from 1 to 65535"),
    (
      "upstream g { server a service=x; }",
      "2:23 \"service\" upstream requires \"resolve\" parameter | write \"resolve\", too"
    ),
    ("upstream g { server a; } upstream G { server b; }", "2:35 duplicate upstream \"G\" | use another name"),
  ])
  func `what a group can't be is told at its place`(group: String, problem: String) {
    #expect(LoadedText("http {\n\(group) server { listen 80; return 204; } }").problems == [problem])
  }

  @Test func `keepalive that nothing can keep is warned of`() {
    let group = "upstream g { server a; keepalive 4; }"
    #expect(
      location("proxy_pass http://g; proxy_http_version 1.0;", http: group).problems == [
        "2:1 warning: connections to \"g\" are not kept open, although the group has keepalive | proxy_http_version 1.1; proxy_set_header Connection \"\";"
      ])
    #expect(location("proxy_pass http://g; proxy_set_header Connection close;", http: group).problems.count == 1)
    #expect(location("proxy_pass http://g;", http: group).problems == [])
  }
}

/// A rewrite of text, to compare.
private struct Words: Equatable {
  var from: Template?
  var to: Template

  init(from: Template, to: Template) { (self.from, self.to) = (from, to) }

  init(_ rewrite: RedirectRewrite) {
    if case .text(let template) = rewrite.from { from = template }
    to = rewrite.to
  }
}
