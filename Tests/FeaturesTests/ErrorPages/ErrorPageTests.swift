import ConfigurationSupport
@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic
import Transport

@Suite struct `Error pages` {
  private func status(_ answer: String) -> String { String(answer.dropFirst(9).prefix(3)) }
  private func body(_ answer: String) -> String { answer.split(separator: "\r\n\r\n").last.map(String.init) ?? "" }

  @Test func `an error page takes the place of what the upstream said`() throws {
    let rig = try Rig(
      """
      server { listen 80; location / { proxy_pass http://127.0.0.1:9; proxy_intercept_errors on; error_page 500 =203 /page; }
        location /page { return 200 "page of $uri"; } }
      """)
    let client = try rig.asked()
    try rig.upstream.answer("HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nown")
    #expect(client.status == 203 && client.body == "page of /page")
    #expect(try rig.upstream.isClosed)
  }

  @Test func `the address of an error page may speak of the upstream that failed`() throws {
    let rig = try Rig(
      """
      server { listen 80; error_page 502 /down?h=$proxy_host; location / { proxy_pass http://127.0.0.1:9; }
        location /down { return 200 "$args $proxy_port"; } }
      """)
    let client = try rig.ask(Rig.get)
    try rig.upstream.refuse()
    #expect(client.status == 502 && client.body == "h=127.0.0.1:9 9")
  }

  @Test func `error_page goes by the status, once, and says the status that it was told to`() throws {
    let pages = """
      error_page 404 /none; error_page 418 = /own; error_page 403 =200 /ok; error_page 400 401 @named;
      error_page 402 http://else.test/; error_page 405 =301 http://else.test/; error_page 406 /loop;
      location / { return 404; } location /t { return 418; } location /f { return 403; } location /u { return 401; }
      location /p { return 402; } location /m { return 405; } location /a { return 406; } location /loop { return 404; }
      location /none { return 200 none; } location /own { return 202 own; } location /ok { return 202 ok; }
      location @named { return 203 "named $uri"; }
      """
    #expect(try status(Rig.answer(of: pages, "/")) == "404")
    #expect(try body(Rig.answer(of: pages, "/")) == "none")
    #expect(try status(Rig.answer(of: pages, "/t")) == "202")
    #expect(try status(Rig.answer(of: pages, "/f")) == "200")
    #expect(try body(Rig.answer(of: pages, "/u")) == "named /u")
    #expect(try Rig.answer(of: pages, "/p").contains("\r\nLocation: http://else.test/\r\n"))
    #expect(try status(Rig.answer(of: pages, "/p")) == "302")
    #expect(try status(Rig.answer(of: pages, "/m")) == "301")
    // An error page that fails itself gets no second error page, and its own status, as in nginx.
    #expect(try body(Rig.answer(of: pages, "/a")).contains("<h1>404 Not Found</h1>"))
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
    let answer = try Rig.answer(of: "\(pages) location / { return 302 /old; }")
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

  @Test func `error pages keep, replace or take over the status`() throws {
    let pages = try #require(
      LoadedText.server(
        "location @n { return 503; } location / { error_page 404 /a; error_page 500 502 =200 /b; error_page 503 = @n; error_page 403 https://x/; return 204; }"
      ).settings?.http.servers.first?.root.locations.last?[ErrorPages.self]?.pages)
    #expect(pages.map(\.status) == [404, 500, 502, 503, 403])
    #expect(pages.map(\.replacement) == [nil, 200, 200, 0, nil])
    #expect(pages.last?.target == .redirect(Template(literal: "https://x/")))
  }
}

extension String {
  /// The values of the lines that begin with this text.
  fileprivate func components(of prefix: String) -> [String] {
    split(separator: "\r\n").filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.utf8.count)) }
  }
}
