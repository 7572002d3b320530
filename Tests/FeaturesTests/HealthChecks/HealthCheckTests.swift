import Bytes
import Configuration
@testable import Features
@testable import Forward
import HTTP
import Observability
import Patterns
import Testing
@testable import Traffic
import Transport
import Upstream

/// The settings of an http block, without its files.
private func loaded(_ http: String) throws -> HTTPSettings {
  let (settings, diagnostics) = Configuration.load(text: "events {} http { \(http) }", fileName: "/etc/test.conf")
  return try #require(settings, "\(diagnostics)").http
}

private func pass(_ http: String) throws -> (pass: UpstreamPass, check: HealthCheckSettings, serverName: String) {
  let server = try #require(try loaded(http).servers.first)
  for location in server.root.withNested {
    if let pass = location[UpstreamPass.self], let check = pass[HealthCheckSettings.self] {
      return (pass, check, server.primaryName)
    }
  }
  throw Missing()
}

private struct Missing: Error {}

@Suite struct `The request of a health check` {
  private func lines(_ location: String) throws -> [String] {
    let (pass, check, name) = try pass(
      """
      upstream u { server 10.0.0.1:1; }
      server { listen 443 ssl; server_name me.test; ssl_certificate c.pem; ssl_certificate_key c.key;
        ssl_client_certificate ca.pem; ssl_verify_client on; location /a/ { \(location) } }
      """)
    let head = OutgoingRequestHead()
    #expect(HealthCheckRequest(check, of: pass, serverName: name)?.fill(head) == true)
    var text = ByteBuffer()
    HTTP1Encoder.request(head, pass.version == .http10 ? .http10 : .http11, to: &text)
    return String(decoding: text.readable, as: UTF8.self).split(separator: "\r\n").map(String.init)
  }

  @Test func `is a GET of / with the group's name, over a connection of its own`() throws {
    #expect(
      try lines("proxy_pass http://u; health_check;") == [
        "GET / HTTP/1.1", "Host: u", "User-Agent: sallyport-health-check", "Connection: close",
      ])
    #expect(
      try lines("proxy_pass http://u/b/; proxy_method POST; proxy_http_version 1.0; health_check uri=/x?y=%20;").first
        == "GET /x?y=%20 HTTP/1.0")
  }

  /// Whoever reads an identity field takes a check for a client otherwise.
  @Test func `has no field of a client`() throws {
    let found = try lines(
      """
      proxy_pass http://u; health_check; client_identity rfc9440; set $mine x;
      proxy_set_header X-DN $ssl_client_s_dn; proxy_set_header X-Part "CN=$ssl_client_s_dn_cn";
      proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-ID $request_id; proxy_set_header X-Mine $mine; proxy_set_header X-Arg $arg_a;
      proxy_set_header Connection $http_connection; proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Content-Length 7; proxy_set_header Transfer-Encoding chunked; proxy_set_header Expect 100-continue;
      proxy_set_header X-Key "a key"; proxy_set_header X-Name "$server_name:$proxy_host:$proxy_port"; proxy_set_header Accept "";
      """)
    #expect(
      found == [
        "GET / HTTP/1.1", "X-Key: a key", "X-Name: me.test:u:80", "Host: u", "User-Agent: sallyport-health-check",
        "Connection: close",
      ])
  }

  @Test(arguments: [
    ("$host", "me.test"), ("$http_host", "u"), ("other.test", "other.test"), ("$proxy_host:1", "u:1"), ("\"\"", "u"),
  ])
  func `always has a host`(written: String, sent: String) throws {
    let found = try lines("proxy_pass http://u; health_check; proxy_set_header Host \(written);")
    #expect(found.filter { $0.hasPrefix("Host:") } == ["Host: \(sent)"])
  }

  @Test func `of gRPC is a call of the health service`() throws {
    let (pass, check, name) = try pass(
      """
      upstream u { server 10.0.0.1:1; }
      server { listen 80; location / { grpc_pass grpc://u; grpc_set_header Content-Type text/plain;
        health_check type=grpc grpc_service=a.B; } }
      """)
    let request = try #require(HealthCheckRequest(check, of: pass, serverName: name)), head = OutgoingRequestHead()
    #expect(request.fill(head) && request.body == GRPCHealthMessage.request(service: "a.B"))
    #expect(String(decoding: head.method, as: UTF8.self) == "POST" && request.method == .post)
    #expect(String(decoding: head.target, as: UTF8.self) == "/grpc.health.v1.Health/Check")
    var text = ByteBuffer()
    HTTP1Encoder.request(head, .http11, to: &text)
    let lines = String(decoding: text.readable, as: UTF8.self).split(separator: "\r\n").map(String.init)
    #expect(
      lines.dropFirst() == [
        "Host: u", "User-Agent: sallyport-health-check", "TE: trailers", "Content-Type: application/grpc",
        "Transfer-Encoding: chunked",
      ])
  }
}

@Suite struct `The judgement of a response to a health check` {
  private func judge(_ tests: String, _ head: String, _ body: String = "") throws -> String? {
    let (_, check, _) = try pass(
      """
      upstream u { server 10.0.0.1:1; } \(tests.isEmpty ? "" : "match m { \(tests) }")
      server { listen 80; location / { proxy_pass http://u; health_check \(tests.isEmpty ? "" : "match=m"); } }
      """)
    var judge = HealthCheckJudge(check.kind, RegularExpression.Scratch())
    let parsed = ResponseHead()
    var parser = HeadParser()
    let bytes = Array("HTTP/1.1 \(head)\r\n\r\n".utf8)
    let outcome = bytes.withUnsafeBytes {
      parser.response($0, limits: HeadLimits(), requestMethod: .get, into: parsed)
    }
    guard case .complete = outcome else { throw Missing() }
    if let fault = judge.take(parsed) { return fault }
    _ = Array(body.utf8).withUnsafeBytes { judge.take($0) }
    return judge.end(nil)
  }

  @Test(arguments: [("200 OK", nil), ("399 X", nil), ("199 X", ""), ("400 X", ""), ("503 X", "")])
  func `is by status without a match`(head: String, fault: String?) throws {
    let status = head.prefix(3)
    #expect(try judge("", head) == fault.map { _ in "the status is \(status)" })
  }

  @Test(arguments: [
    ("status 200;", "200 OK", true), ("status 200;", "204 X", false), ("status ! 500;", "500 X", false),
    ("status ! 500;", "404 X", true), ("status 200 204;", "204 X", true), ("status ! 301 302;", "302 X", false),
    ("status 200-399;", "399 X", true), ("status 200-399;", "400 X", false), ("status ! 400-599;", "500 X", false),
    ("status 301-303 307;", "303 X", true), ("status 301-303 307;", "304 X", false),
    ("status 200-299; status ! 204;", "204 X", false),
    ("header X-A;", "500 X\r\nx-a: 1", true), ("header X-A;", "200 OK", false),
    ("header ! Refresh;", "200 OK", true), ("header ! Refresh;", "200 OK\r\nRefresh: 1", false),
    ("header X-A = one;", "200 OK\r\nX-A: one", true), ("header X-A = one;", "200 OK\r\nX-A: ONE", false),
    ("header X-A = one;", "200 OK\r\nX-A: two\r\nX-A: one", true),
    ("header X-A != one;", "200 OK\r\nX-A: two", true), ("header X-A != one;", "200 OK\r\nX-A: one", false),
    ("header X-A != one;", "200 OK", false), ("header X-A ~ ^o;", "200 OK\r\nX-A: one", true),
    ("header X-A ~ ^n;", "200 OK\r\nX-A: one", false), ("header X-A !~ ^n;", "200 OK\r\nX-A: one", true),
    ("header X-A !~ ^o;", "200 OK\r\nX-A: two\r\nX-A: one", false), ("header X-A !~ ^o;", "200 OK", false),
  ])
  func `is by all tests of the head`(tests: String, head: String, passes: Bool) throws {
    #expect((try judge(tests, head) == nil) == passes)
  }

  @Test(arguments: [
    ("body ~ \"Welcome to\";", "Hello, Welcome to x", true), ("body ~ \"Welcome to\";", "", false),
    ("body !~ maintenance;", "all well", true), ("body !~ maintenance;", "maintenance mode", false),
    ("body ~ a; body ~ b;", "a", false), ("status 200; body ~ a;", "a", true),
  ])
  func `is by all tests of the body`(tests: String, body: String, passes: Bool) throws {
    #expect((try judge(tests, "200 OK", body) == nil) == passes)
  }

  @Test func `reads no more of a body than 64 KiB`() throws {
    let (_, check, _) = try pass(
      """
      upstream u { server 10.0.0.1:1; } match m { body ~ end; }
      server { listen 80; location / { proxy_pass http://u; health_check match=m; } }
      """)
    var judge = HealthCheckJudge(check.kind, RegularExpression.Scratch())
    let piece = [UInt8](repeating: 0x61, count: 40_000) + Array("end".utf8)
    #expect(piece.withUnsafeBytes { judge.take(UnsafeRawBufferPointer(rebasing: $0[..<40_000])) })
    // The last three bytes are beyond the limit.
    let room = HealthCheckJudge.bodyLimit - 40_000
    #expect(!piece.withUnsafeBytes { judge.take(UnsafeRawBufferPointer(rebasing: $0[(40_003 - 3 - room)...])) })
    #expect(judge.end(nil) == "the body doesn't match \"end\"")
  }

  /// A pattern that reaches its limit must not pass as "doesn't match".
  @Test func `fails where a pattern reaches its limit`() throws {
    let body = String(repeating: "a", count: 40_000)
    #expect(
      try judge("body !~ \"(a+)+$|(?:(a*)*)*b\";", "200 OK", body + "!")
        == "the body was too much work for \"(a+)+$|(?:(a*)*)*b\"")
  }
}

@Suite struct `What a reload keeps of health` {
  private func records(
    _ check: String, address: UInt32 = 0x0A00_0001, location: String = "", after former: HealthRecords? = nil
  ) throws -> HealthRecords {
    let http = try loaded(
      """
      upstream u { server 10.0.0.1:1; }
      server { listen 80; location / { \(location) proxy_pass http://u; \(check) } }
      """)
    let groups = http.groups.map { group in
      ResolvedGroup(
        settings: group, servers: group.servers.map { .init(address: .ipv4(address: address, port: 1), settings: $0) })
    }
    return HealthRecords(http, groups, after: former)
  }

  private func isUp(_ records: HealthRecords) -> Bool? { records.groups.first.flatMap { $0?.isUp(0) } }

  private func fail(_ records: HealthRecords) throws {
    _ = try #require(records.checks.first?.servers.first).health.take(.failed)
  }

  @Test func `an unchanged check of an unchanged address keeps its result, wherever it is written`() throws {
    let first = try records("health_check fails=1;")
    #expect(isUp(first) == true)
    try fail(first)
    #expect(isUp(try records("\n\n health_check;", after: first)) == false)
    #expect(isUp(try records("health_check mandatory;", after: first)) == false)
  }

  @Test func `the counts of a server never fall, whatever a reload does to its checks`() throws {
    let server = HealthRecords.Server(
      group: GroupName("u", isOfStream: false), address: .ipv4(address: 0x0A00_0001, port: 1))
    let first = try records("health_check;")
    try fail(first)
    let other = try records("health_check uri=/x;", after: first)
    try fail(other)
    #expect(other.count(.failed, of: server) == 2)
    let again = try records("health_check;", after: records("", after: other))
    #expect(again.count(.failed, of: server) == 2)
    // The last check of a generation that ends counts, too.
    try fail(other)
    #expect(again.count(.failed, of: server) == 3 && again.count(.passed, of: server) == 0)
  }

  @Test func `another address, check or request begins anew`() throws {
    let first = try records("health_check;")
    try fail(first)
    #expect(isUp(try records("health_check;", address: 0x0A00_0002, after: first)) == true)
    #expect(isUp(try records("health_check uri=/x;", after: first)) == true)
    #expect(isUp(try records("health_check;", location: "proxy_set_header X y;", after: first)) == true)
    #expect(isUp(try records("health_check interval=1s;", after: first)) == true)
    #expect(isUp(try records("", after: first)) == nil)
  }

  @Test func `a new server waits for its first check where that is mandatory`() throws {
    #expect(isUp(try records("health_check mandatory;")) == false)
    let up = try records("health_check;")
    #expect(isUp(try records("health_check mandatory;", after: up)) == false)
    #expect(isUp(try records("health_check mandatory persistent;", after: up)) == true)
    try fail(up)
    #expect(isUp(try records("health_check mandatory persistent;", after: up)) == false)
    #expect(isUp(try records("health_check mandatory persistent;")) == false)
  }

  /// Otherwise the last word of the log would stay that the server is down.
  @Test func `the log hears of a server that a reload of its check puts into service again`() throws {
    func told(_ check: String, address: UInt32 = 0x0A00_0001, after former: HealthRecords) throws -> [Bool] {
      try records(check, address: address, after: former).reliefs.map(\.isChecked)
    }
    let first = try records("health_check;")
    #expect(first.reliefs.isEmpty)
    #expect(try told("health_check uri=/x;", after: first).isEmpty)
    try fail(first)
    #expect(try told("health_check uri=/x;", after: first) == [true])
    #expect(try told("", after: first) == [false])
    // It is still down, has to wait for its first check, or is in the group no longer.
    #expect(try told("health_check interval=5s;", after: first).isEmpty)
    #expect(try told("health_check uri=/x mandatory;", after: first).isEmpty)
    #expect(try told("health_check uri=/x;", address: 0x0A00_0002, after: first).isEmpty)
  }

  @Test func `a server that was down and waits for its first check is told of when it passes, over several reloads`()
    throws
  {
    let first = try records("health_check;")
    try fail(first)
    let waiting = try records("health_check uri=/x mandatory;", after: first)
    let again = try records("health_check uri=/y mandatory;", after: waiting)
    let health = try #require(again.checks.first?.servers.first).health
    #expect(health.isToldDown && health.take(.passed) == .cameUp(passes: 1))
    #expect(try records("health_check uri=/x mandatory;", after: again).reliefs.isEmpty)
    let fresh = try #require(try records("health_check mandatory;").checks.first?.servers.first).health
    #expect(fresh.take(.passed) == .passedFirst)
  }

  @Test func `the line names the server and what the reload did`() throws {
    let first = try records("health_check;")
    try fail(first)
    let (changed, removed) = try (records("health_check uri=/x;", after: first), records("", after: first))
    #expect(
      changed.reliefs.map { "\($0.server.address) \($0.reason)" }
        == ["10.0.0.1:1 a reload changed its health check, which begins anew"])
    #expect(removed.reliefs.map(\.reason) == ["a reload took its health check away"])
  }

  @Test func `servers that are down for good are not checked, and equal checks are one`() throws {
    let http = try loaded(
      """
      upstream u { server 10.0.0.1:1; server 10.0.0.1:1; server 10.0.0.2:1 down; server 10.0.0.3:1 backup; }
      server { listen 80;
        location /a { proxy_pass http://u; health_check; }
        location /b { proxy_pass http://u; health_check; }
        location /c { location /c/d { proxy_pass http://u; health_check uri=/d; } return 204; } }
      """)
    let groups = http.groups.map { group in
      ResolvedGroup(
        settings: group,
        servers: group.servers.compactMap { server in
          if case .address(let address) = server.address { .init(address: address, settings: server) } else { nil }
        })
    }
    let records = HealthRecords(http, groups)
    #expect(records.checks.map(\.servers.count) == [2, 0, 2])
    #expect(records.byServer.values.map(\.count) == [2, 2])
    _ = records.checks[2].servers[0].health.take(.failed)
    let health = try #require(records.groups[0])
    #expect((0..<4).map { health.isUp($0) } == [false, false, true, true])
  }
}
