import Bytes
import HTTP
@testable import Proxy
import Testing

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
    #expect(head == ["GET / HTTP/1.0", "Host: 127.0.0.1:9", "Connection: close", "X-Other: 2"])
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

  /// Two hops on, RFC 9110 §7.6.1 would have the identity removed.
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
      let exchange = try rig.exchange("GET / HTTP/\(version)", "Host: a", "Connection: upgrade", "Upgrade: \(upgrade)")
      #expect(try rig.upstreamHead(of: exchange).contains("Upgrade: ") == isAsked)
      #expect(exchange.outgoing.asksForUpgrade == isAsked)
    }
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
        "GET / HTTP/1.0", "\(name): https", "X_Mine: me", "Host: 127.0.0.1:9", "Connection: close", "X-Mine1: 1",
      ])
  }

  @Test func `names the host by which the request was judged`() throws {
    let rig = try Rig(
      """
      server { listen 1080; location / { proxy_pass \(Self.up)$request_uri; proxy_set_header Host $http_host;
        proxy_set_header X-URI $request_uri; } }
      """)
    let head = try rig.forwarded("GET http://pub.test?q HTTP/1.1", "Host: PUB.test:80")
    #expect(head == ["GET /?q HTTP/1.0", "Host: pub.test", "X-URI: /?q", "Connection: close"])
    #expect(try rig.forwarded("GET /x?y HTTP/1.1", "Host: a.test:8080").contains("Host: a.test:8080"))
  }

  @Test func `says its own framing`() throws {
    let rig = try Rig("server { listen 1080; location / { proxy_pass \(Self.up); } }")
    let exchange = try rig.exchange("POST / HTTP/1.1", "Host: a", "Content-Length: 99")
    func head(_ body: Exchange.Body) throws -> String {
      exchange.body = body
      return try rig.upstreamHead(of: exchange)
    }
    let kept = RequestBody(allowance: 10)
    try [UInt8]("abc".utf8).withUnsafeBytes { try kept.append($0) }
    #expect(try head(.collected(kept)).contains("\r\nContent-Length: 3\r\n"))
    #expect(try head(.held).contains("\r\nContent-Length: 99\r\n"))
    #expect(try head(.none).contains("\r\nContent-Length: 0\r\n"))
  }

  enum Shown: CaseIterable, Sendable { case none, whole, bodiless, path }

  @Test(arguments: [
    (Shown.none, "POST /a/../x?y HTTP/1.0"), (.whole, "POST /a/../x?y HTTP/1.0"), (.bodiless, "GET /a/../x?y HTTP/1.0"),
    (.path, "GET /x?y HTTP/1.0"),
  ])
  func `is the client's own in a named location, and a GET for another path`(shown: Shown, line: String) throws {
    let rig = try Rig("server { listen 1080; location / { proxy_pass \(Self.up); } }")
    let exchange = try rig.exchange("POST /a/../x?y HTTP/1.1", "Host: a")
    let pass = try #require(exchange.pass)
    exchange.redirection =
      switch shown {
      case .none: .none
      case .whole: .whole
      case .bodiless: .bodiless
      case .path: .path
      }
    #expect(try rig.upstreamHead(of: exchange).hasPrefix(line + "\r\n"))
    #expect(RequestRewrite.method(exchange, pass) == (line.hasPrefix("POST") ? .post : .get))
  }
}
