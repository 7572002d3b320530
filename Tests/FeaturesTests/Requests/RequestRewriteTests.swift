import Bytes
@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic

@Suite struct `The request for an upstream` {
  private func target(_ location: String, _ url: String, _ asked: String) throws -> String {
    let rig = try Rig("server { listen 1080; location \(location) { proxy_pass \(url); } }")
    let line = try #require(rig.forwarded("GET \(asked) HTTP/1.1", "Host: a").first)
    return line.split(separator: " ")[1].description
  }

  static let up = "http://127.0.0.1:9"

  @Test(arguments: [
    ("/", up, "/a/../b?x=%20", "/a/../b?x=%20"), ("/", up, "http://a/x?y", "/x?y"), ("/", up, "http://a", "/"),
    ("/a/", up + "/", "/a/b%20c", "/b%20c"), ("/a/", up + "/z/", "/a/../a/b", "/z/b"),
    ("/a", up + "/z", "/ab?q=1", "/zb?q=1"),
    ("/a", up + "/z", "/%61/b", "/z/b"), ("= /a", up + "/z", "/a?q", "/z?q"),
    ("~ ^/(a)", up, "/a%2e", "/a%2e"),
    ("~ ^/(.*)$", up + "/$1$is_args$args", "/b?c=d", "/b?c=d"), ("/", up + "?x", "/a", "/?xa"),
  ])
  func `has the path that proxy_pass makes`(location: String, url: String, asked: String, sent: String) throws {
    #expect(try target(location, url, asked) == sent)
  }

  @Test func `carries no hop-by-hop field, and what Connection names with it`() throws {
    let rig = try Rig("server { listen 1080; location / { proxy_pass \(Self.up); } }")
    let head = try rig.forwarded(
      "GET / HTTP/1.1", "Host: a", "Connection: keep-alive, X-Mine", "X-Mine: 1", "Keep-Alive: 5", "Upgrade: h2c",
      "TE: trailers", "Proxy-Connection: x", "X-Other: 2", "Expect: 100-continue")
    #expect(head == ["GET / HTTP/1.1", "Host: 127.0.0.1:9", "X-Other: 2"])
  }

  @Test func `has the fields that are set, once, in place of the client's`() throws {
    let rig = try Rig(
      """
      server { listen 1080; location / { proxy_pass \(Self.up); proxy_http_version 1.1;
        proxy_set_header Host $host; proxy_set_header X-From "$remote_addr, $http_x_from"; proxy_set_header Accept "";
        proxy_set_header Connection ""; proxy_set_header Content-Length 7; proxy_set_header Transfer-Encoding chunked;
        proxy_set_header X-DN $ssl_client_s_dn; } }
      """)
    let head = try rig.forwarded(
      "GET / HTTP/1.1", "Host: A.test:80", "x-from: me", "Accept: */*", "X-DN: CN=forged", "X_DN: CN=forged",
      "x.dn: CN=forged", "X-Other: 2")
    #expect(head == ["GET / HTTP/1.1", "Host: a.test", "X-From: 192.0.2.1, me", "X-Other: 2"])
  }

  @Test func `has no line that a value has begun`() throws {
    let rig = try Rig(
      "server { listen 1080; location ~ (?s)^/(.*) { proxy_pass \(Self.up); proxy_set_header X-Path \"<$1>\"; } }")
    let head = try rig.forwarded("GET /a%0d%0aX-Evil:%201 HTTP/1.1", "Host: a")
    #expect(head.contains("X-Path: <a  X-Evil: 1>"))
    #expect(!head.contains { $0.hasPrefix("X-Evil") })
  }

  /// By RFC 9110 §7.6.1, a later hop would remove identity fields that a forwarded Connection field nominates.
  @Test(
    arguments: [
      ("X-Client-DN, Client-Cert", nil), ("keep-alive, Upgrade", "keep-alive, Upgrade"), ("te, X-A, close", "te,close"),
    ] as [(String, String?)])
  func `nominates no field for a client`(connection: String, sent: String?) throws {
    let rig = try Rig(
      """
      server { listen 1080; set $way $http_connection;
        location / { proxy_pass \(Self.up); proxy_set_header Connection $http_connection; }
        location /set/ { proxy_pass \(Self.up); proxy_set_header connection $way; }
        location /own/ { proxy_pass \(Self.up); proxy_set_header Connection "close, X-Own"; } }
      """)
    let head = try rig.forwarded("GET / HTTP/1.1", "Host: a", "Connection: \(connection)")
    #expect(head.first { $0.hasPrefix("Connection: ") } == sent.map { "Connection: \($0)" })
    #expect(try rig.forwarded("GET /own/ HTTP/1.1", "Host: a").contains("Connection: close, X-Own"))
  }

  @Test(arguments: [
    ("1.1", "websocket", true), ("1.1", "h2c", false), ("1.1", "HTTP/2.0", false), ("1.0", "websocket", false),
  ])
  func `asks for another protocol as the client may, and for no tunnel`(
    version: String, upgrade: String, isAsked: Bool
  ) throws {
    for value in isAsked ? ["$http_upgrade", "websocket"] : ["$http_upgrade"] {
      let rig = try Rig(
        """
        server { listen 1080; location / { proxy_pass \(Self.up); proxy_set_header Upgrade \(value);
          proxy_set_header Connection upgrade; } }
        """)
      let fields = ["GET / HTTP/\(version)", "Host: a", "Connection: upgrade", "Upgrade: \(upgrade)"]
      let client = try rig.ask(fields)
      try rig.upstream.open()
      #expect(try rig.upstream.sent.contains("Upgrade: ") == isAsked)
      // A client that did not request the protocol gets no 101.
      try rig.upstream.answer("HTTP/1.1 101 Switching Protocols\r\nUpgrade: \(upgrade)\r\n\r\n")
      #expect(client.status == (isAsked ? 101 : 502) && client.isTunnel == isAsked)
    }
  }

  @Test(arguments: [
    ("Upgrade: websocket\r\n", true), ("upgrade: WebSocket\r\n", true), ("Upgrade: foo/2\r\n", true),
    ("Upgrade: foo/2, websocket\r\n", true), ("Upgrade: foo/2\r\nUpgrade: websocket\r\n", true),
    ("", false), ("Upgrade:\r\n", false), ("Upgrade: h2c\r\n", false), ("Upgrade: foo\r\n", false),
    ("Upgrade: web\r\n", false), ("Upgrade: websocket, h2c\r\n", false),
    ("Upgrade: websocket\r\nUpgrade: h2c\r\n", false),
  ])
  func `takes no protocol of an upstream that the client didn't ask for`(fields: String, isTaken: Bool) throws {
    let rig = try Rig(
      """
      server { listen 1080; location / { proxy_pass \(Self.up); proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection upgrade; } }
      """)
    let client = try rig.ask(
      "GET / HTTP/1.1", "Host: a", "Connection: upgrade", "Upgrade: websocket, foo/2")
    try rig.upstream.open()
    try rig.upstream.answer("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\(fields)\r\nbytes")
    #expect(client.status == (isTaken ? 101 : 502) && client.isTunnel == isTaken)
    #expect(!client.body.contains("bytes") || isTaken)
  }

  @Test func `has no Upgrade of ours either for a client of HTTP 1_0, which knows no 101`() throws {
    let rig = try Rig(
      "server { listen 1080; location / { proxy_pass \(Self.up); proxy_set_header Upgrade websocket; } }")
    #expect(try !rig.forwarded("GET / HTTP/1.0", "Host: a").contains { $0.hasPrefix("Upgrade") })
    #expect(try rig.forwarded("GET / HTTP/1.1", "Host: a").contains("Upgrade: websocket"))
  }

  @Test(arguments: ["X_Forwarded_Proto", "x-forwarded-proto", "X.Forwarded.Proto"], Array("-_.!#$%&'*+^`|~"))
  func `has a set field under no other spelling`(name: String, separator: Character) throws {
    let rig = try Rig(
      """
      server { listen 1080; ignore_invalid_headers off; underscores_in_headers on;
        location / { proxy_pass \(Self.up); proxy_set_header \(name) https; proxy_set_header X_Mine me; } }
      """)
    let forged = ["X-Forwarded-Proto", "X-Mine"].map { $0.replacing("-", with: String(separator)) + ": forged" }
    let head = try rig.forwarded("GET / HTTP/1.1", "Host: a", forged[0], forged[1], "X-Mine1: 1")
    #expect(
      head == [
        "GET / HTTP/1.1", "\(name): https", "X_Mine: me", "Host: 127.0.0.1:9", "X-Mine1: 1",
      ])
  }

  @Test func `names the host by which the request was judged`() throws {
    let rig = try Rig(
      """
      server { listen 1080; location / { proxy_pass \(Self.up)$request_uri; proxy_set_header Host $http_host;
        proxy_set_header X-URI $request_uri; } }
      """)
    let head = try rig.forwarded("GET http://PUB.test:80?q HTTP/1.1", "Host: PUB.test:80")
    #expect(head == ["GET /?q HTTP/1.1", "Host: PUB.test:80", "X-URI: /?q"])
    #expect(try rig.forwarded("GET /x?y HTTP/1.1", "Host: a.test:8080").contains("Host: a.test:8080"))
  }

  @Test func `says its own framing`() throws {
    let rig = try Rig(
      """
      server { listen 1080; proxy_http_version 1.1; location / { proxy_pass \(Self.up); }
        location /stream { proxy_pass \(Self.up); proxy_request_buffering off; } }
      """)
    let length = "Content-Length: 3", chunked = "Transfer-Encoding: chunked"
    #expect(try rig.request("POST / HTTP/1.1", "Host: a", length, body: ["a", "bc"]).hasSuffix("\(length)\r\n\r\nabc"))
    #expect(try rig.request("POST / HTTP/1.1", "Host: a", chunked, body: ["abc"]).hasSuffix("\(length)\r\n\r\nabc"))
    #expect(
      try rig.request("POST /stream HTTP/1.1", "Host: a", length, body: ["a", "bc"]).hasSuffix(
        "\(length)\r\n\r\nabc"))
    #expect(
      try rig.request("POST /stream HTTP/1.1", "Host: a", chunked, body: ["a", "bc"]).hasSuffix(
        "\(chunked)\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"))
    #expect(try rig.request("POST / HTTP/1.1", "Host: a", "Content-Length: 0").hasSuffix("Content-Length: 0\r\n\r\n"))
    #expect(try !rig.request("POST / HTTP/1.1", "Host: a").contains("Content-Length"))
  }

  @Test(arguments: [
    ("418", "@named", "POST /a/../x?y HTTP/1.1"), ("400", "@named", "GET /a/../x?y HTTP/1.1"),
    ("418", "/other?z", "GET /other?z HTTP/1.1"),
  ])
  func `is the client's own in a named location, and a GET for another path`(
    status: String, page: String, line: String
  ) throws {
    let rig = try Rig(
      """
      server { listen 1080; error_page \(status) \(page); location / { return \(status); }
        location @named { proxy_pass \(Self.up); } location /other { proxy_pass \(Self.up); } }
      """)
    let length = "Content-Length: 3"
    let request = try rig.request("POST /a/../x?y HTTP/1.1", "Host: a", length, body: ["abc"])
    #expect(request.hasPrefix(line + "\r\n"))
    // The proxy forwards the body only together with the client's method.
    #expect(request.hasSuffix("abc") == line.hasPrefix("POST"))
  }
}
