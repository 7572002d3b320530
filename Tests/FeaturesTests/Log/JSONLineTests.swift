import Bytes
@testable import Features
@testable import Forward
import Foundation
import Glibc
import TestSupport
import Testing
@testable import Traffic

/// Variables that are declared plain, and values that a connection keeps, skip the escaping of an access line.
@Suite struct `Lines of the access log in JSON` {
  private static let others = [
    "http_x", "http_user_agent", "arg_a", "cookie_c", "sent_http_x_sent", "sent_http_location", "named",
  ]
  private static let names = SimpleVariable.allCases.map(\.rawValue) + others

  /// Bytes that a client may try, alone and within a sequence that is not UTF-8.
  private static let texts: [[UInt8]] =
    (0...255).map { [UInt8($0)] } + [
      [0xC3], [0xE2, 0x82], [0xF0, 0x9F, 0x98], [0xED, 0xA0, 0x80], [0xC0, 0xAF], [0xC3, 0xA9], [0x5C, 0x22],
      Array(#"","status":"forged"#.utf8), Array("xxxxxxx\"".utf8), Array("xxxxxxxx\\x".utf8),
    ]

  private static func head(_ text: [UInt8], inTarget: Bool) -> [UInt8] {
    let middle = Array("a".utf8) + text + Array("b".utf8)
    let shown = inTarget ? middle : Array("ab".utf8)
    let fields = inTarget ? Array("ab".utf8) : middle
    var head = Array("GET /".utf8) + shown + Array("?a=".utf8) + shown + Array(" HTTP/1.1\r\nHost: h\r\n".utf8)
    for name in ["X", "User-Agent", "X-Forwarded-For", "Content-Type", "traceparent", "tracestate", "Range"] {
      head += Array("\(name): ".utf8) + fields + Array("\r\n".utf8)
    }
    head += Array("Cookie: c=".utf8) + fields + Array("\r\n".utf8)
    head += Array("Authorization: Basic \(Base64.encode(text + Array(":p".utf8)))\r\n\r\n".utf8)
    return head
  }

  @Test(arguments: [true, false])
  func `each is one object with every variable, whatever bytes a request has`(inTarget: Bool) async throws {
    let scene = try Scene()
    defer { scene.end() }
    let members = Self.names.map { "\"\($0)\":\"${\($0)}\"" }.joined(separator: ",")
    let rig = try Rig(
      """
      log_format all escape=json '{\(members)}'; underscores_in_headers on; ignore_invalid_headers off;
      server { listen 127.0.0.1:1; server_name a; trace_context on; add_header X-Sent $http_x always;
        location ~ "^/(?<named>.*)$" { return 302 /x$arg_a; } }
      """, accessLog: "\(scene.path("access.log")) all")
    for text in Self.texts { _ = try rig.answer(Self.head(text, inTarget: inTarget)) }
    rig.flushLogs()
    let lines = try Data(contentsOf: URL(fileURLWithPath: scene.path("access.log"))).split(separator: 0x0A)
    #expect(lines.count == Self.texts.count)
    var statuses: Set<String> = []
    for line in lines {
      let object = try? JSONSerialization.jsonObject(with: Data(line)) as? [String: String]
      #expect(object.map { Set($0.keys) } == Set(Self.names), "\(String(decoding: line, as: UTF8.self))")
      if let status = object?["status"] { statuses.insert(status) }
    }
    #expect(statuses == ["302", "400"], "some bytes pass, and some are refused")
  }
}

@Suite struct `The predefined format json` {
  /// The members of the line of each request.
  private func lines(_ http: String, _ location: String, requests: Int) throws -> [[String: Any]] {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig(
      "\(http) server { listen 127.0.0.1:1; location / { \(location) empty_gif; } location /free { return 204; } }",
      accessLog: "\(scene.path("access.log")) json")
    for _ in 0..<requests { _ = try rig.answer("GET / HTTP/1.1\r\nHost: a\r\n\r\n") }
    _ = try rig.answer("GET /free HTTP/1.1\r\nHost: a\r\n\r\n")
    rig.flushLogs()
    let text = try Data(contentsOf: URL(fileURLWithPath: scene.path("access.log")))
    return try text.split(separator: 0x0A).map {
      try #require(try JSONSerialization.jsonObject(with: Data($0)) as? [String: Any])
    }
  }

  /// Without it, a 503 of a limit looks like one of a server that was never asked.
  @Test func `says what limits made of each request`() throws {
    let lines = try lines(
      "limit_req_zone $uri zone=a:32k rate=1r/m; limit_conn_zone $uri zone=b:32k;",
      "limit_req zone=a; limit_conn b 5; limit_req_status 429;", requests: 2)
    #expect(lines.map { $0["limit_req"] as? String } == ["PASSED", "REJECTED", ""])
    #expect(lines.map { $0["limit_conn"] as? String } == ["PASSED", "", ""])
    #expect(lines.map { $0["status"] as? Int } == [200, 429, 204])
  }

  @Test func `has no member of a limit that the configuration doesn't have`() throws {
    let none = try lines("", "", requests: 1), one = try lines("limit_conn_zone $uri zone=b:32k;", "", requests: 0)
    #expect(none.allSatisfy { line in !line.keys.contains { $0.hasPrefix("limit_") } })
    #expect(one.count == 1 && one[0].keys.contains("limit_conn") && !one[0].keys.contains("limit_req"))
  }
}

/// What stays the same for a connection is rendered once, for the format that was last written.
@Suite struct `Values of the connection in access lines` {
  /// Serves these paths on one connection and returns the lines. `format`: the lines of `log_format`, each with a name.
  private func lines(_ paths: [String], _ formats: String, _ locations: String) throws -> [String] {
    let scene = try Scene()
    defer { scene.end() }
    let log = scene.path("access.log")
    let rig = try Rig(
      """
      \(formats)
      server { listen 127.0.0.1:1; server_name a; access_log \(log) first;
        \(locations.replacing("LOG", with: log)) location / { return 204; } }
      """, accessLog: "\(log) first")
    _ = try rig.answer(paths.map { "GET \($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
    rig.flushLogs()
    return try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n").map(String.init)
  }

  @Test func `lines of one format have the request's values between those of the connection`() throws {
    let lines = try lines(
      ["/a", "/b"], "log_format first 'c $connection $scheme, $ssl_cipher: $uri $status/$pid $scheme';", "")
    let pid = getpid()
    #expect(lines.count == 2)
    let connection = try #require(lines.first?.split(separator: " ")[1])
    #expect(
      lines == ["c \(connection) http, -: /a 204/\(pid) http", "c \(connection) http, -: /b 204/\(pid) http"])
  }

  @Test func `two formats of one connection don't take each other's text`() throws {
    let lines = try lines(
      ["/a", "/b", "/a", "/b", "/b"],
      "log_format first 'first $scheme $uri $https.'; log_format second '$uri second: $scheme, $scheme$uri';",
      "location /b { return 204; access_log LOG second; }")
    let first = "first http /a -.", second = "/b second: http, http/b"
    #expect(lines == [first, second, first, second, second])
  }

  @Test func `text stands alone, at the end and beside text`() throws {
    let lines = try lines(["/a"], "log_format first 'one ' 'two ' $uri ' three' ' four'; ", "")
    #expect(lines == ["one two /a three four"])
  }
}
