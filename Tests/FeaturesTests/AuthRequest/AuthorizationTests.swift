import Bytes
@testable import Features
@testable import Forward
import HTTP
import TestSupport
import Testing
@testable import Traffic
import Transport

/// `auth_request` between a client and upstreams in memory. The first upstream is the one that is asked.
@Suite struct `An auth_request` {
  private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
  private static let empty = "HTTP/1.1 202 Accepted\r\nX-User: al\r\nContent-Length: 0\r\n\r\n"

  private func rig(_ directives: String = "", auth: String = "", server: String = "", http: String = "") throws -> Rig {
    try Rig(
      """
      \(http) upstream u { server 127.0.0.1:9; keepalive 4; } upstream a { server 127.0.0.1:10; keepalive 4; }
      server { listen 80; \(server)
        location / { auth_request /auth; auth_request_set $who $upstream_http_x_user; \(directives)
          proxy_set_header X-User $who; proxy_pass http://u; proxy_http_version 1.1; }
        location = /auth { internal; proxy_pass http://a; proxy_http_version 1.1; \(auth) }
        location @page { auth_request off; return 200 "page $who"; }
      }
      """)
  }

  private func asked(_ rig: Rig, _ lines: [String] = ["GET /a?b HTTP/1.1", "Host: h"], body: [String] = []) throws
    -> MemoryStream
  {
    let client = try rig.ask(lines, body: body)
    try rig.upstream.open()
    return client
  }

  @Test func `of 2xx admits the request, and its variables go to the upstream`() throws {
    let rig = try rig(auth: "proxy_set_header X-Original-URI $request_method:$request_uri;")
    let client = try asked(
      rig,
      ["POST /a?b HTTP/1.1", "Host: h", "Content-Length: 4", "Expect: 100-continue", "X-User: mallory", "Cookie: c=1"],
      body: ["body"])
    let asked = try rig.upstream.sent
    #expect(asked.hasPrefix("GET /auth HTTP/1.1\r\n"))
    #expect(asked.contains("X-Original-URI: POST:/a?b\r\n") && asked.contains("Cookie: c=1\r\n"))
    for name in ["Content-Length", "Transfer-Encoding", "Expect", "X-User"] {
      #expect(!asked.contains(name), "\(name)")
    }
    #expect(client.status == nil && client.interim.isEmpty)
    try rig.upstream.answer(Self.empty)
    #expect(rig.upstreams.count == 2 && client.interim == [100])
    try rig.upstream.open()
    let sent = try rig.upstream.sent
    #expect(sent.hasPrefix("POST /a?b HTTP/1.1\r\n") && sent.hasSuffix("\r\n\r\nbody"))
    #expect(sent.contains("X-User: al\r\n") && !sent.contains("mallory"))
    try rig.upstream.answer(Self.ok)
    #expect(client.status == 200 && client.body == "ok")
  }

  @Test func `sets the query and the rate of the main request, as nginx lets it`() throws {
    let rig = try rig("auth_request_set $args user=$upstream_http_x_user&$args; auth_request_set $limit_rate 4k;")
    let client = try asked(rig)
    try rig.upstream.answer(Self.empty)
    try rig.upstream.open()
    // As in nginx, `$args` in the value is that of the subrequest.
    let sent = try rig.upstream.sent
    #expect(sent.hasPrefix("GET /a?user=al& HTTP/1.1\r\n"), "\(sent)")
    #expect(client.exchange.map { ResponseRate.value($0) } == 4096)
    try rig.upstream.answer(Self.ok)
    #expect(client.status == 200)
    // The next request has its own.
    _ = try rig.ask("GET /b?c HTTP/1.1", "Host: h")
    rig.upstreams[0].answer("HTTP/1.1 204 No Content\r\n\r\n")
    #expect(rig.upstreams[1].sent.hasPrefix("GET /b?user=& HTTP/1.1\r\n"), "\(rig.upstreams[1].sent)")
  }

  @Test func `uses the kept connection of the one before`() throws {
    let rig = try rig()
    for number in 0..<3 {
      let client = try rig.ask("GET /a HTTP/1.1", "Host: h")
      if number == 0 { try rig.upstream.open() }
      rig.upstreams[0].answer(Self.empty)
      if number == 0 { rig.upstreams[1].open() }
      rig.upstreams[1].answer(Self.ok)
      #expect(client.body == "ok" && rig.upstreams.count == 2)
    }
  }

  @Test(arguments: [
    ("HTTP/1.1 403 No\r\nContent-Length: 1\r\n\r\nx", 403),
    ("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 500),
    ("HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n", 500), ("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", 500),
    ("HTTP/1.1 304 Same\r\n\r\n", 500), ("HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n", 500),
    ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut", 500),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", 500),
    ("HTTP/1.1 200 OK\r\nContent-Le", 500), ("", 500), ("nonsense\r\n\r\n", 500),
    ("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 500),
    ("HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", 403),
  ])
  func `of any other response never admits`(response: String, status: Int) throws {
    let rig = try rig(
      "early_hints 1; error_page 502 504 =200 @page;",
      auth: "error_page 500 502 504 404 =200 @page; proxy_intercept_errors on; early_hints 1;"
        + " proxy_set_header Upgrade x; proxy_set_header Connection upgrade; proxy_next_upstream off;")
    let client = try asked(rig, ["GET /a HTTP/1.1", "Host: h", "Upgrade: x", "Connection: upgrade"])
    try rig.upstream.answer(response, ends: true)
    #expect(client.status == UInt16(status) && rig.upstreams.count == 1)
    #expect(client.isReleased && !client.isTunnel && client.interim.isEmpty)
  }

  @Test func `whose upstream can't be reached is an error, and so is one without a location`() throws {
    let rig = try rig(auth: "error_page 502 =200 @page;")
    let client = try rig.ask("GET /a HTTP/1.1", "Host: h")
    try rig.upstream.refuse()
    #expect(client.status == 500)
    let missing = try Rig("server { listen 80; location / { auth_request /none; } location /x { return 204; } }")
    #expect(try missing.ask("GET /a HTTP/1.1", "Host: h").status == 500)
    let itself = try Rig(
      "upstream u { server 127.0.0.1:9; } server { listen 80; auth_request /a; location / { proxy_pass http://u; } }")
    let looped = try itself.ask("GET /a HTTP/1.1", "Host: h")
    try itself.upstream.open()
    try itself.upstream.answer(Self.ok)
    // The admitted request goes over the same kept connection.
    #expect(looped.status == nil && itself.upstreams.count == 1)
    try itself.upstream.answer(Self.ok)
    #expect(looped.status == 200)
  }

  @Test func `is answered by sallyport's own responses, too`() throws {
    for (line, status) in [("204", 200), ("200 ok", 200), ("401", 401), ("403", 403), ("444", 500), ("302 /x", 500)] {
      let rig = try rig(auth: "return \(line);")
      let client = try rig.ask("GET /a HTTP/1.1", "Host: h")
      if status == 200 {
        try rig.upstream.open()
        try rig.upstream.answer(Self.ok)
      }
      #expect(client.status == UInt16(status), "\(line)")
    }
  }

  @Test func `passes all challenges on`() throws {
    let rig = try rig()
    let client = try asked(rig)
    try rig.upstream.answer(
      "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"a\"\r\nX-Secret: s\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n"
    )
    #expect(client.status == 401 && client.head.contains("WWW-Authenticate: Basic realm=\"a\"\r\n"))
    #expect(client.head.contains("WWW-Authenticate: Bearer\r\n") && !client.head.contains("X-Secret"))
  }

  @Test func `sets its variables for pages of those it denies, and leaves none of a fault`() throws {
    let rig = try rig("error_page 401 500 = @page;")
    let client = try asked(rig)
    try rig.upstream.answer("HTTP/1.1 401 No\r\nX-User: eve\r\nContent-Length: 0\r\n\r\n")
    #expect(client.status == 200 && client.body == "page eve")
    let second = try rig.ask("GET /a HTTP/1.1", "Host: h")
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nX-User: eve\r\nContent-Length: 9\r\n\r\nx", ends: true)
    #expect(second.body == "page ")
  }

  @Test func `with satisfy any, one of two admissions is enough, and the challenge of the other goes`() throws {
    let rig = try rig("satisfy any; deny all;")
    let client = try asked(rig)
    try rig.upstream.answer(Self.empty)
    try rig.upstream.open()
    try rig.upstream.answer(Self.ok)
    #expect(client.status == 200)
    let denied = try rig.ask("GET /a HTTP/1.1", "Host: h")
    rig.upstreams[0].answer("HTTP/1.1 401 No\r\nWWW-Authenticate: x\r\nContent-Length: 0\r\n\r\n")
    #expect(denied.status == 401 && denied.head.contains("WWW-Authenticate: x"))
    let broken = try rig.ask("GET /a HTTP/1.1", "Host: h")
    rig.upstreams[0].answer("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
    #expect(broken.status == 500)
    let allowed = try self.rig("satisfy any; allow all;")
    #expect(try allowed.ask("GET /a HTTP/1.1", "Host: h").status == nil)
    #expect(allowed.upstreams.count == 1)
    try allowed.upstream.open()
    #expect(try allowed.upstream.sent.hasPrefix("GET /a "))
  }

  @Test func `ends with its request, and a late answer changes nothing`() throws {
    let rig = try rig()
    for step in ["", "HTTP/1.1 200 OK\r\nConte", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"] {
      let client = try asked(rig)
      let asked = try rig.upstream
      if !step.isEmpty { asked.answer(step) }
      client.exchange?.clientDidLeave()
      #expect(client.cutReason == .clientLeft && asked.isClosed)
      asked.answer(Self.empty)
      #expect(client.status == nil)
      // The objects serve others, unharmed.
      let next = try self.asked(rig)
      try rig.upstream.answer("HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
      #expect(next.status == 403)
    }
  }

  @Test func `ends with a failure of its request's body, and its late answer admits nobody`() throws {
    let rig = try rig("error_page 400 @page;")
    let client = try asked(rig, ["POST /a HTTP/1.1", "Host: h", "Content-Length: 9"], body: ["x"])
    let asked = try rig.upstream
    client.exchange?.failDuringBody(ErrorResponse(400))
    #expect(client.status == 400 && asked.isClosed)
    asked.answer(Self.empty)
    #expect(rig.upstreams.count == 1 && client.isReleased)
  }

  @Test func `counts limits once, keeps set variables to itself, and sees those of its request`() throws {
    let rig = try rig(
      "set $mine main;", auth: "set $mine sub; proxy_set_header X-Main $kept-$mine; proxy_set_header X-Map $path;",
      server: "set $kept $request_uri; limit_req zone=z;",
      http: "limit_req_zone $host zone=z:1m rate=1r/m; map $uri $path { default $uri; }")
    let client = try asked(rig)
    #expect(try rig.upstream.sent.contains("X-Main: /a?b-sub\r\nX-Map: /auth\r\n"))
    #expect(client.exchange?.variables.slots.contains([UInt8]("main".utf8)) == true)
    try rig.upstream.answer(Self.empty)
    #expect(rig.upstreams.count == 2)
  }

  @Test func `runs again in the location of an internal redirect, and not where it is off`() throws {
    let rig = try Rig(
      """
      upstream u { server 127.0.0.1:9; keepalive 4; }
      server { listen 80; auth_request /auth; rewrite ^/r /in last;
        location /in { proxy_pass http://u; location /in/free { auth_request off; proxy_pass http://u; } }
        location = /auth { proxy_pass http://u; } }
      """)
    _ = try rig.ask("GET /in/free HTTP/1.1", "Host: h")
    try rig.upstream.open()
    #expect(try rig.upstream.sent.hasPrefix("GET /in/free"))
    _ = try rig.ask("GET /in HTTP/1.1", "Host: h")
    try rig.upstream.open()
    #expect(try rig.upstream.sent.hasPrefix("GET /auth"))
  }

  @Test func `judges by status and completeness alone`() {
    for status in UInt16(100)..<600 {
      let isSuccess = (200..<300).contains(status)
      #expect((AuthorizationVerdict(status: status, isWhole: true) == .admitted) == isSuccess)
      #expect(AuthorizationVerdict(status: status, isWhole: false) == .incomplete)
    }
    #expect(AuthorizationVerdict(status: nil, isWhole: true) == .incomplete)
  }
}
