import Foundation
import Synchronization
import TestSupport
import Testing

/// A request of HTTP/2 that says one thing to us and could say another to an upstream of HTTP/1.
struct HTTP2Smuggling: Sendable, CustomTestStringConvertible {
  var section: String
  var name: String
  var fields: [HPACK.Field]
  /// DATA frames; the last ends the stream. Without one, HEADERS do.
  var body: [String] = []
  var trailers: [HPACK.Field]?
  var testDescription: String { "\(section) \(name)" }

  static let base: [HPACK.Field] = [
    (":method", "GET"), (":scheme", "http"), (":path", "/smuggled"), (":authority", "localhost"),
  ]
  static let post = [(":method", "POST")] + base[1...]

  init(
    _ section: String, _ name: String, _ fields: [HPACK.Field], body: [String] = [], trailers: [HPACK.Field]? = nil
  ) {
    self.section = section
    self.name = name
    self.fields = fields
    self.body = body
    self.trailers = trailers
  }

  var frames: [HTTP2Frame] {
    let isWhole = body.isEmpty && trailers == nil
    var frames: [HTTP2Frame] = [.headers(1, HPACK.block(fields), flags: isWhole ? 5 : 4)]
    for (index, text) in body.enumerated() {
      frames.append(.data(1, text, ends: trailers == nil && index == body.count - 1))
    }
    if let trailers { frames.append(.headers(1, HPACK.block(trailers))) }
    return frames
  }

  /// Played as a case of RFC 9113: malformed requests are errors of the stream (§8.1.1).
  var vector: FrameCase { FrameCase(section, name, .streamError([.protocolError]), frames) }

  /// With one of the pseudo-fields replaced.
  private static func with(_ name: String, _ value: String) -> [HPACK.Field] {
    base.map { $0.name == name ? (name, value) : $0 }
  }

  private static func without(_ name: String) -> [HPACK.Field] { base.filter { $0.name != name } }

  static let fieldsOfHTTP1: [HTTP2Smuggling] = [
    ("transfer-encoding", "chunked"), ("transfer-encoding", "identity"), ("connection", "close"),
    ("connection", "x-a"), ("proxy-connection", "keep-alive"), ("keep-alive", "5"), ("upgrade", "h2c"),
    ("te", "gzip"), ("te", "trailers, gzip"), ("te", ""), ("te", "trailers;q=1"),
  ].map { .init("8.2.2", "\($0.0): \($0.1)", base + [$0]) }

  static let badFields: [HTTP2Smuggling] =
    ["X-Upper", "x-\ra", "x-\na", "x-\0a", "x a", "x:a", "x\ta", "", "x\u{7f}", "x\u{e9}", "x-a:", " x-a", "x(a"].map {
      .init("8.2.1", "the name \($0.debugDescription)", base + [($0, "b")])
    }
    + ["a\rb", "a\nb", "a\r\nx-injected: b", "a\0b", " a", "a ", "\ta", "a\t", "a\u{1}b", "a\u{7f}b"].map {
      .init("8.2.1", "the value \($0.debugDescription)", base + [("x-a", $0)])
    }

  static let pseudoFields: [HTTP2Smuggling] =
    [
      .init("8.3", "an unknown pseudo-field", base + [(":test", "a")]),
      .init("8.3", "a pseudo-field of responses", base + [(":status", "200")]),
      .init("8.3", "a pseudo-field after a field", Array(base[..<3]) + [("x-a", "b"), base[3]]),
      .init("8.3", "a second path after a field", base + [("x-a", "b"), (":path", "/smuggled")]),
      .init("8.3.1", "no :authority and no host", without(":authority")),
      .init("8.3.1", ":authority and another host", base + [("host", "other")]),
      .init("8.3.1", ":authority and host with another port", base + [("host", "localhost:8080")]),
      .init("8.3.1", "two hosts", without(":authority") + [("host", "localhost"), ("host", "localhost")]),
      .init("8.3.1", "two hosts beside :authority", base + [("host", "localhost"), ("host", "localhost")]),
      .init("8.5", "CONNECT", [(":method", "CONNECT"), (":authority", "localhost:1")]),
      .init("8.5", "CONNECT with a path", with(":method", "CONNECT")),
      .init("RFC 8441", "CONNECT for another protocol", with(":method", "CONNECT") + [(":protocol", "tcp")]),
      .init("RFC 8441", "GET with :protocol", base + [(":protocol", "websocket")]),
      .init(
        "RFC 9110", "two authorizations", base + [("authorization", "Basic YTph"), ("authorization", "Basic Yjpi")]),
    ]
    + [":method", ":scheme", ":path"].map { .init("8.3.1", "no \($0)", without($0)) }
    + ["localhost:80", "localhost:443", "localhost:", "LOCALHOST", "localhost."].map {
      .init("8.3.1", ":authority and the same host written as \($0)", base + [("host", $0)])
    }
    + base.map { .init("8.3.1", "two of \($0.name)", base + [$0]) }
    + base.map { field in .init("8.3.1", "two different of \(field.name)", base + [(field.name, "x")]) }
    + [
      (":path", "", "empty"), (":path", "/smuggled x", "with a space"), (":path", "/smuggled#x", "with a fragment"),
      (":path", "http://localhost/smuggled", "as an absolute URI"), (":path", "smuggled", "without a slash"),
      (":path", "*", "as an asterisk"), (":path", "/\r\nx-injected: b", "with CR LF"), (":path", "/\0", "with a NUL"),
      (":path", "/smuggled HTTP/1.1\r\nhost: x\r\n\r\nGET /smuggled", "with a request"),
      (":path", "/\ta", "with a tab"),
      (":path", "/\u{7f}", "with a control character"),
      (":scheme", "ftp", "ftp"), (":scheme", "", "empty"), (":scheme", "http://x/?", "as a URI"),
      (":scheme", "http\r\n", "with CR LF"),
      (":authority", "localhost/x", "with a path"), (":authority", "a@localhost", "with a user"),
      (":authority", "local host", "with a space"), (":authority", "localhost\r\nx-injected: b", "with CR LF"),
      (":authority", "", "empty"), (":authority", "localhost:port", "with a bad port"),
      (":authority", "localhost,other", "with a comma"), (":authority", "localhost:80,other:80", "with two ports"),
      (":method", "", "empty"), (":method", "GET /smuggled HTTP/1.1\r\nx:", "with a request"),
      (":method", "G ET", "with a space"), (":method", "TRACE", "TRACE"), (":method", "get", "in lower case"),
    ].map { .init("8.3.1", "\($0.0) \($0.2)", with($0.0, $0.1)) }

  static let lengths: [HTTP2Smuggling] =
    [
      .init("8.1.1", "a length and no body", post + [("content-length", "5")]),
      .init("8.1.1", "a length and an empty body", post + [("content-length", "5")], body: [""]),
      .init("8.1.1", "more data than the length", post + [("content-length", "3")], body: ["abcde"]),
      .init("8.1.1", "more data than the length, later", post + [("content-length", "3")], body: ["abc", "de"]),
      .init("8.1.1", "less data than the length", post + [("content-length", "10")], body: ["ab", "c"]),
      .init(
        "8.1.1", "data after a length of 0", post + [("content-length", "0")], body: ["GET /smuggled HTTP/1.1\r\n\r\n"]),
      .init(
        "8.1.1", "trailers before the length is reached", post + [("content-length", "10")], body: ["abc"],
        trailers: [("x-a", "b")]),
      .init(
        "8.1.1", "two equal lengths", post + [("content-length", "3"), ("content-length", "3")], body: ["abc"]),
      .init(
        "8.1.1", "two lengths", post + [("content-length", "3"), ("content-length", "0")], body: ["abc"]),
      .init(
        "8.1.1", "a length and a transfer coding", post + [("content-length", "3"), ("transfer-encoding", "chunked")],
        body: ["abc"]),
    ]
    + ["3, 3", "+3", "-3", "0x3", "", "3 ", "18446744073709551619", "3\r\nx-injected: b"].map {
      .init("8.1.1", "the length \($0.debugDescription)", post + [("content-length", $0)], body: ["abc"])
    }

  static let badTrailers: [HTTP2Smuggling] = [
    (":path", "/smuggled"), (":status", "200"), ("X-Upper", "a"), ("transfer-encoding", "chunked"),
    ("content-length", "99"), ("connection", "close"), ("x-a", "b\r\nx-injected: c"), ("x-a", "b\0"), ("x-\na", "b"),
    ("", "b"), ("x a", "b"),
  ].map { .init("8.1", "the trailer \($0.0.debugDescription): \($0.1)", post, body: ["abc"], trailers: [$0]) }

  static let heads = fieldsOfHTTP1 + badFields + pseudoFields
  static let bodies = lengths + badTrailers
}

@Suite(.staged) struct `Requests of HTTP 2 that HTTP 1 could read otherwise` {
  @Test(arguments: ["on", "off"]) func `each is refused, the connection serves on, and the upstream sees nothing`(
    buffering: String
  ) async throws {
    let front = try await HTTP2Front(
      .ofTest(), location: "proxy_http_version 1.1; proxy_request_buffering \(buffering);")
    for vector in HTTP2Smuggling.heads + (buffering == "on" ? HTTP2Smuggling.bodies : []) {
      let fault = try await front.frames { try vector.vector.fault($0) }
      #expect(fault == nil, "\(vector.testDescription)")
    }
    // Connections are accepted in order: this one is the first.
    #expect(try await front.frames { try $0.get(1, "/clean").status } == 200)
    #expect(front.upstream.connections == 1 && front.upstream.receivedText.hasPrefix("GET /clean HTTP/1.1\r\n"))
    #expect(!front.daemon.errorLog.contains("[error]") && !front.daemon.errorLog.contains("[alert]"))
  }

  @Test func `CVE-2026-33186: a :path without its slash passes no rule of a location`() async throws {
    let front = try await HTTP2Front(
      .ofTest(), server: "location /admin.Service/ { deny all; } location = /admin.Service/Method { deny all; }")
    for path in ["admin.Service/Method", "admin.Service/", "./admin.Service/Method", "?/admin.Service/Method"] {
      let seen = try await front.frames { client in
        client.send(.headers(1, HPACK.block(HPACK.request("POST", path)), flags: 5))
        let response = try client.response(on: 1)
        return response.resetCode != nil || (400..<500).contains(response.status)
      }
      #expect(seen, "\(path)")
    }
    let status = try await front.frames { try $0.get(1, "/admin.Service/Method").status }
    #expect(status == 403 && front.upstream.connections == 0)
  }

  /// The upstream has the head by the time the body proves wrong: then the request must never become whole.
  @Test func `a body that lies is cut where it is passed on as it comes`() async throws {
    let whole = Mutex<[String]>([])
    let front = try await HTTP2Front(
      .ofTest(), location: "proxy_http_version 1.1; proxy_request_buffering off;",
      upstream: { wire in
        try wire.serve { request in
          whole.withLock { $0.append(request.target) }
          try wire.echo(request)
        }
      })
    for vector in HTTP2Smuggling.bodies {
      let fault = try await front.frames { try vector.vector.fault($0) }
      #expect(fault == nil, "\(vector.testDescription)")
    }
    #expect(try await front.frames { try $0.get(1, "/clean").status } == 200)
    #expect(whole.withLock { $0 } == ["/clean"])
    #expect(!front.upstream.receivedText.contains("x-injected"))
  }

  @Test
  func `what is taken is rebuilt: the authority is the Host, cookies are one, and the length is that of the body`()
    async throws
  {
    let front = try await HTTP2Front(
      .ofTest(), location: "proxy_http_version 1.1; proxy_set_header Host $http_host;")
    let fields: [HPACK.Field] = [
      ("host", "example.org:80"), ("cookie", "a=b"), ("x-a", "spaced  out\t"), ("cookie", "c=d"), ("te", "trailers"),
    ]
    let status = try await front.frames { client in
      let pseudo: [HPACK.Field] = [
        (":method", "POST"), (":scheme", "http"), (":path", "/head?a=b"), (":authority", "example.org:80"),
      ]
      client.send(
        .headers(1, HPACK.block(pseudo + fields.map { ($0.name, $0.value.replacing("\t", with: "")) }), flags: 4),
        .data(1, "hello", ends: false), .data(1))
      return try client.response(on: 1).status
    }
    #expect(status == 200)
    let seen = front.upstream.receivedText
    #expect(seen.hasPrefix("POST /head?a=b HTTP/1.1\r\n"))
    for line in ["Host: example.org:80", "cookie: a=b; c=d", "x-a: spaced  out", "Content-Length: 5"] {
      #expect(seen.components(separatedBy: "\r\n").count { $0.lowercased() == line.lowercased() } == 1, "\(line)")
    }
    #expect(seen.lowercased().components(separatedBy: "host:").count == 2)
    #expect(!seen.lowercased().contains("\r\nte:") && seen.hasSuffix("\r\n\r\nhello"))
  }

  @Test func `fields that a trailer must not be are left out of trailers`() async throws {
    let front = try await HTTP2Front(.ofTest(), location: "proxy_http_version 1.1; proxy_request_buffering off;")
    let status = try await front.frames { client in
      client.send(
        .post(1), .data(1, "abc", ends: false),
        .headers(1, HPACK.block([("host", "evil"), ("authorization", "x"), ("x-a", "b")])))
      return try client.response(on: 1).status
    }
    #expect(status == 200)
    let seen = front.upstream.receivedText
    #expect(!seen.contains("evil") && !seen.contains("authorization"))
  }

  @Test(arguments: ["rfc9440", "xfcc"])
  func `CVE-2026-39858, GHSA-f59h-q822-g45g: over HTTP 2, too, no client says who it is`(form: String) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene,
      server: """
        http2 on; underscores_in_headers on; ignore_invalid_headers off; client_identity \(form);
        set $who $ssl_client_s_dn_cn;
        """,
      location: """
        proxy_http_version 1.1; proxy_request_buffering off;
        proxy_set_header X-Client-DN $ssl_client_s_dn; proxy_set_header X-Who $who;
        """)
    let names =
      `Who a client is, told to the upstream`.aliases + ["x_client_dn", "x.client.dn", "x-client_dn", "x_who", "x.who"]
    let forged: [HPACK.Field] = names.map { ($0.lowercased(), "forged") } + [("x-stays", "yes"), ("x_stays", "yes")]
    let status = try await scene.talk(tls: front.port, identity: cast.alice, ["-alpn", "h2"]) { wire in
      let client = FrameClient(wire)
      try client.begin()
      client.send(.post(1, "/", forged), .data(1, "hi", ends: false), .headers(1, HPACK.block(forged)))
      return try client.response(on: 1).status
    }
    #expect(status == 200)
    let seen = front.upstream.receivedText
    #expect(!seen.contains("forged"))
    #expect(seen.contains("x-stays: yes") && seen.contains("x_stays: yes"))
    #expect(seen.contains("X-Client-DN: CN=alice") || seen.contains("CN=alice"))
  }
}
