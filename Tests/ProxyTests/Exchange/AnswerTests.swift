import Bytes
import HTTP
@testable import Proxy
import TestSupport
import Testing
import Transport

@Suite struct `Answers of our own` {
  private func answer(_ server: String, _ target: String = "/", _ fields: String = "") throws -> String {
    try Rig("server { listen 8080; server_name s.test; \(server) }")
      .answer("GET \(target) HTTP/1.1\r\nHost: h.test\r\n\(fields)\r\n")
  }

  private func status(_ answer: String) -> String { String(answer.dropFirst(9).prefix(3)) }
  private func body(_ answer: String) -> String { answer.split(separator: "\r\n\r\n").last.map(String.init) ?? "" }

  @Test func `error_page goes by the status, once, and says the status that it was told to`() throws {
    let pages = """
      error_page 404 /none; error_page 418 = /own; error_page 403 =200 /ok; error_page 400 401 @named;
      error_page 402 http://else.test/; error_page 405 =301 http://else.test/; error_page 406 /loop;
      location / { return 404; } location /t { return 418; } location /f { return 403; } location /u { return 401; }
      location /p { return 402; } location /m { return 405; } location /a { return 406; } location /loop { return 404; }
      location /none { return 200 none; } location /own { return 202 own; } location /ok { return 202 ok; }
      location @named { return 203 "named $uri"; }
      """
    #expect(try status(answer(pages, "/")) == "404")
    #expect(try body(answer(pages, "/")) == "none")
    #expect(try status(answer(pages, "/t")) == "202")
    #expect(try status(answer(pages, "/f")) == "200")
    #expect(try body(answer(pages, "/u")) == "named /u")
    #expect(try answer(pages, "/p").contains("\r\nLocation: http://else.test/\r\n"))
    #expect(try status(answer(pages, "/p")) == "302")
    #expect(try status(answer(pages, "/m")) == "301")
    // An error page that fails itself gets no second error page, and its own status, as in nginx.
    #expect(try body(answer(pages, "/a")).contains("<h1>404 Not Found</h1>"))
  }

  @Test(arguments: [
    ("error_page 302 /x; location /x { return 301 /new; }", 301, ["http://h.test/new"]),
    ("error_page 302 /x; location /x { return 200 page; }", 302, ["http://h.test/old"]),
    ("error_page 302 =303 http://else.test/;", 303, ["http://else.test/"]),
    ("error_page 302 @n; location @n { return 307 /new; }", 307, ["http://h.test/new"]),
    ("error_page 302 /x; location /x { return 404; }", 404, ["http://h.test/old"]),
  ])
  func `a redirect that error_page replaces leaves one Location`(
    pages: String, status: Int, places: [String]
  ) throws {
    let answer = try answer("\(pages) location / { return 302 /old; }")
    #expect(self.status(answer) == "\(status)" && answer.components(of: "Location: ") == places, "\(answer)")
  }

  @Test func `a redirect that error_page passes to an upstream has the upstream's Location`() throws {
    let rig = try Rig(
      """
      upstream u { server 127.0.0.1:9; keepalive 4; }
      server { listen 80; error_page 302 /x; location / { return 302 /old; } location /x { proxy_pass http://u; } }
      """)
    for (field, place) in [("Location: http://up.test/\r\n", "http://up.test/"), ("", "http://h/old")] {
      let client = try rig.ask("GET / HTTP/1.1", "Host: h")
      try rig.upstream.open()
      try rig.upstream.answer("HTTP/1.1 302 Found\r\n\(field)Content-Length: 0\r\n\r\n", ends: true)
      #expect(client.head.components(of: "Location: ") == [place], "\(client.head)")
    }
  }

  @Test func `a later add_trailer can say what an earlier one said`() throws {
    let rig = try Rig(
      """
      server { listen 80; location / { add_trailer X-A one; add_trailer X-B "$sent_trailer_x_a two";
        add_trailer X-C "$sent_trailer_x_b three"; return 200 body; } }
      """)
    let client = try rig.ask("GET / HTTP/1.1", "Host: h")
    let trailers = try #require(client.trailers)
    let values = trailers.bytes.withUnsafeBytes { bytes in trailers.fields.map { bytes[$0.value].text } }
    #expect(values == ["one", "one two", "one two three"])
  }

  @Test func `nginx's private codes are 400 on the wire`() {
    for code in 494...497 { #expect(ErrorResponse(code).status == 400) }
    #expect(ErrorResponse(421).status == 421)
    #expect(ErrorResponse(413).blamesRequest && !ErrorResponse(500).blamesRequest && ErrorResponse(500).endsConnection)
    #expect(!ErrorResponse(502).endsConnection && !ErrorResponse(404).endsConnection)
  }

  @Test(arguments: [
    ("", "http://h.test/x"), ("server_name_in_redirect on;", "http://s.test/x"), ("absolute_redirect off;", "/x"),
  ])
  func `a redirect is absolute as it is asked to be`(directives: String, place: String) throws {
    #expect(try answer("\(directives) location / { return 302 /x; }").contains("\r\nLocation: \(place)\r\n"))
  }

  @Test func `add_header goes with success and redirects, or with always`() throws {
    let server =
      "add_header X-A 1; add_header X-B $arg_b always; location /bad { return 500; } location / { return 204; }"
    let good = try answer(server, "/?b=2")
    #expect(good.contains("\r\nX-A: 1\r\n") && good.contains("\r\nX-B: 2\r\n"))
    let bad = try answer(server, "/bad?b=2")
    #expect(!bad.contains("X-A") && bad.contains("\r\nX-B: 2\r\n"))
    #expect(try !answer(server, "/").contains("X-B"))
  }

  @Test func `variables have nginx's values`() throws {
    let text = """
      $request_method|$uri|$request_uri|$args|$is_args|$arg_b|$host|$http_x_y|$cookie_c|$scheme|$server_name|\
      $remote_addr|$remote_port|$server_protocol|$https|$content_type|$request
      """
    let answer = try answer(
      "location / { return 200 \"\(text)\"; }", "/a%20b/../c?a=1&B=2",
      "X-Y: one\r\nCookie: x=y; c=d\r\nContent-Type: t/p\r\n")
    #expect(
      body(answer)
        == "GET|/c|/a%20b/../c?a=1&B=2|a=1&B=2|?|2|h.test|one|d|http|s.test|192.0.2.1|4711|HTTP/1.1||t/p|"
        + "GET /a%20b/../c?a=1&B=2 HTTP/1.1")
  }

  @Test func `a line of the access log is what its format says, escaped`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig(
      """
      log_format mine '$remote_addr [$status] "$http_user_agent" $upstream_addr $body_bytes_sent';
      log_format js escape=json '{"agent":"$http_user_agent"}';
      server { listen 1080; access_log \(scene.path("a.log")) mine; access_log \(scene.path("b.log")) js if=$arg_log;
        location / { return 200 four; } }
      """)
    _ = try rig.answer("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: a\"b\\\r\n\r\n")
    _ = try rig.answer("GET /?log=1 HTTP/1.1\r\nHost: a\r\nUser-Agent: a\"b\\\r\n\r\n")
    _ = try rig.answer("GET /?log=0 HTTP/1.1\r\nHost: a\r\n\r\n")
    rig.flushLogs()
    let lines = scene.text("a.log").split(separator: "\n")
    #expect(lines.first == #"192.0.2.1 [200] "a\x22b\x5C" - 4"#)
    #expect(lines.last == #"192.0.2.1 [200] "-" - 4"#)
    #expect(scene.text("b.log") == #"{"agent":"a\"b\\"}"# + "\n")
  }

  @Test func `requests on one connection are answered in order`() throws {
    let rig = try Rig("server { listen 1080; location / { return 200 \"<$uri>\"; } }")
    let answer = try rig.answer((1...3).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
    #expect(
      answer.split(separator: "\r\n\r\n").compactMap { $0.split(separator: "HTTP").first }.filter { $0.hasPrefix("<") }
        == ["</1>", "</2>", "</3>"])
  }
}

extension String {
  /// The values of the lines that begin with this text.
  fileprivate func components(of prefix: String) -> [String] {
    split(separator: "\r\n").filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.utf8.count)) }
  }
}
