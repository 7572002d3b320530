import ConfigurationSupport
import Features
import Forward
import Testing
import Traffic

/// The location's lines begin in line 2, column 1.
private func location(_ lines: String, http: String = "", servers: String = "server 10.0.0.1:1;") -> LoadedText {
  LoadedText("http { \(http) upstream u { \(servers) } server { listen 80; location / {\n\(lines)\n} } }")
}

private func check(_ parameters: String, pass: String = "proxy_pass http://u;", http: String = "")
  -> HealthCheckSettings?
{
  let text = location("\(pass) health_check \(parameters);", http: http)
  guard let pass = text.settings?.http.servers.first?.root.locations.first?[UpstreamPass.self] else { return nil }
  return pass[HealthCheckSettings.self]
}

@Suite struct `Directives of health checks` {
  @Test func `the defaults are nginx's`() throws {
    let plain = try #require(check(""))
    #expect(plain.interval == 5000 && plain.jitter == 0 && plain.fails == 1 && plain.passes == 1 && plain.port == nil)
    #expect(!plain.isMandatory && !plain.isPersistent && plain.kind == .http(target: [0x2F], match: nil))
  }

  @Test func `each parameter is taken`() throws {
    let full = try #require(
      check(
        "interval=500ms jitter=2s fails=3 passes=2 uri=/a?b=1 port=8080 mandatory persistent match=ok",
        http: "match ok { status 200-299; header X; body ~ y; }"))
    #expect(full.interval == 500 && full.jitter == 2000 && full.fails == 3 && full.passes == 2 && full.port == 8080)
    #expect(full.isMandatory && full.isPersistent)
    guard case .http(let target, let match?) = full.kind else {
      Issue.record("\(full.kind)")
      return
    }
    #expect(target == Array("/a?b=1".utf8) && match.statuses.first?.codes == [200...299])
    #expect(match.fields.count == 1 && match.bodies.count == 1)
  }

  @Test func `a check of gRPC has a service and another status that passes`() throws {
    let pass = "grpc_pass grpc://u;"
    #expect(try #require(check("type=grpc", pass: pass)).kind == .grpc(service: "", orStatus: nil))
    #expect(
      try #require(check("mandatory type=grpc grpc_service=a.B grpc_status=12", pass: pass)).kind
        == .grpc(service: "a.B", orStatus: 12))
    #expect(try #require(check("uri=/x", pass: pass)).kind == .http(target: Array("/x".utf8), match: nil))
  }

  @Test(arguments: [
    ("interval=0", "27 invalid parameter \"interval=0\""), ("interval=5x", "27 invalid parameter \"interval=5x\""),
    ("interval=25d", "27 invalid parameter \"interval=25d\""), ("jitter=-1", "27 invalid parameter \"jitter=-1\""),
    ("fails=0", "27 invalid parameter \"fails=0\""), ("passes=x", "27 invalid parameter \"passes=x\""),
    ("port=0", "27 invalid parameter \"port=0\""), ("port=65536", "27 invalid parameter \"port=65536\""),
    ("uri=x", "27 invalid parameter \"uri=x\""), ("uri=/ü", "27 invalid parameter \"uri=/ü\""),
    ("uri=/#a", "27 invalid parameter \"uri=/#a\""), ("\"uri=/a b\"", "27 invalid parameter \"uri=/a b\""),
    ("uri=/$uri", "27 variables in \"uri\" of \"health_check\""), ("match=no", "27 no match block \"no\""),
    ("type=http", "27 invalid parameter \"type=http\""), ("keepalive_time=60s", "27 `keepalive_time` is nginx's"),
    ("intervall=5s", "27 invalid parameter \"intervall=5s\" | did you mean \"interval\"?"),
    ("fails=2 fails=3", "35 duplicate parameter \"fails\""),
    ("persistent", "14 \"persistent\" without \"mandatory\""),
    ("type=grpc", "14 \"type=grpc\" in a location without grpc_pass"),
    ("grpc_status=12", "14 \"grpc_status\" without \"type=grpc\""),
    ("grpc_service=a.B", "14 \"grpc_service\" without \"type=grpc\""),
  ])
  func `what makes no sense is refused`(parameters: String, problem: String) {
    let errors = location("proxy_pass http://u; \nhealth_check \(parameters);").errors
    // In line 3, the directive begins in column 1.
    let column = Int(problem.prefix(2)).map { $0 - 13 } ?? 0
    #expect(errors.contains { $0.hasPrefix("3:\(column)\(problem.dropFirst(2))") }, "\(errors)")
  }

  @Test(arguments: [
    ("type=grpc uri=/x", "\"uri\" beside \"type=grpc\""), ("type=grpc match=m", "\"match\" beside \"type=grpc\""),
    ("type=grpc grpc_status=0", "invalid parameter \"grpc_status=0\""),
    ("type=grpc grpc_status=17", "invalid parameter \"grpc_status=17\""),
    ("type=grpc grpc_service=$uri", "invalid parameter \"grpc_service=$uri\""),
  ])
  func `what gRPC has no sense for is refused`(parameters: String, problem: String) {
    let errors = location("grpc_pass grpc://u; health_check \(parameters);", http: "match m { status 200; }").errors
    #expect(errors.contains { $0.contains(problem) }, "\(errors)")
  }

  @Test(arguments: [
    ("health_check;", "2:1 \"health_check\" in a location without proxy_pass or grpc_pass"),
    ("return 204; health_check;", "2:13 \"health_check\" in a location without proxy_pass or grpc_pass"),
    ("proxy_pass http://10.0.0.1; health_check;", "2:29 \"health_check\" without an upstream group"),
    ("proxy_pass http://$host; health_check;", "2:26 \"health_check\" without an upstream group"),
    (
      "proxy_pass https://u; proxy_ssl_verify off; proxy_ssl_name $http_x; health_check;",
      "2:69 \"health_check\" beside a \"proxy_ssl_name\" that depends on the client"
    ),
    (
      "proxy_pass https://u; proxy_ssl_verify off; proxy_ssl_certificate $ssl_client_serial.pem; health_check;",
      "2:91 \"health_check\" beside a \"proxy_ssl_certificate\" with variables"
    ),
    ("proxy_pass http://u; health_check; health_check;", "2:36 \"health_check\" directive is duplicate"),
  ])
  func `it needs a location whose upstream can be checked without a client`(lines: String, problem: String) {
    let errors = location(lines).errors
    #expect(errors.contains { $0.hasPrefix(problem) }, "\(errors)")
  }

  @Test func `a unix socket is checked, and has no port`() {
    let servers = "server unix:/x.sock; server 10.0.0.1:1;"
    #expect(location("proxy_pass http://u; health_check;", servers: servers).errors == [])
    let errors = location("proxy_pass http://u; health_check port=1;", servers: servers).errors
    #expect(errors == ["2:22 \"port\" for a group with a unix socket | leave port out: a unix socket has none"])
  }

  @Test(arguments: [
    ("match m { }", "match \"m\" has no test"), ("match m { status; }", "invalid number of arguments in \"status\""),
    ("match m { status x; }", "invalid status \"x\""), ("match m { status 99; }", "invalid status \"99\""),
    ("match m { status 399-200; }", "invalid status \"399-200\""),
    ("match m { status !500; }", "invalid status \"!500\""), ("match m { status !; }", "\"status\" without a code"),
    ("match m { header \"a b\"; }", "invalid field name \"a b\""),
    ("match m { header a like b; }", "invalid test in \"header\""), ("match m { header a b; }", "invalid test in"),
    ("match m { header a ~ \"(\"; }", "invalid regular expression \"(\""),
    ("match m { body = x; }", "invalid test in \"body\""), ("match m { body ~ \"(\"; }", "invalid regular expression"),
    ("match m { require $x; }", "`require` is nginx's, but not supported here"),
    ("match m { proxy_pass x; }", "\"proxy_pass\" directive is not allowed here"),
    ("match m { status 200; } match m { status 200; }", "duplicate match \"m\""),
    ("match { status 200; }", "invalid number of arguments in \"match\""),
  ])
  func `a match block without sense is refused`(block: String, problem: String) {
    let errors = location("return 204;", http: block).errors
    #expect(errors.contains { $0.contains(problem) }, "\(errors)")
  }

  @Test func `a misspelt name of a match block is corrected`() {
    let errors = location("proxy_pass http://u; health_check match=welcom;", http: "match welcome { status 200; }")
      .errors
    #expect(errors == ["2:35 no match block \"welcom\" | did you mean \"welcome\"?"])
  }
}
