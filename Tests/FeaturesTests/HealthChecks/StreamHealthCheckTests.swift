import ConfigurationSupport
@testable import Features
@testable import Forward
import Patterns
import Testing
@testable import Traffic

private func stream(_ server: String, stream: String = "", servers: String = "server 10.0.0.1:1;") -> LoadedText {
  LoadedText("stream { \(stream) upstream u { \(servers) } server { listen 80; proxy_pass u;\n\(server)\n} }")
}

private func check(_ parameters: String, stream more: String = "") -> HealthCheckSettings? {
  stream("health_check \(parameters);", stream: more).settings?.http.servers.first?.root[UpstreamPass.self]?[
    HealthCheckSettings.self]
}

/// Hears pieces of bytes. nil: the check goes on after them.
private func judged(_ match: String, _ pieces: [String]) throws -> (passed: Bool, fault: String?) {
  let settings = try #require(check("match=m", stream: "match m { \(match) }"))
  var judge = HealthCheckJudge(settings.kind, RegularExpression.Scratch())
  for piece in pieces where Array(piece.utf8).withUnsafeBytes({ judge.takeStream($0) }) { return (true, nil) }
  return (false, judge.end(nil))
}

@Suite struct `Health checks of stream` {
  @Test func `the defaults are nginx's`() throws {
    let plain = try #require(check(""))
    #expect(plain.interval == 5000 && plain.jitter == 0 && plain.fails == 1 && plain.passes == 1 && plain.port == nil)
    #expect(!plain.isMandatory && plain.kind == .tcp(match: nil) && plain.timeout == 5000)
  }

  @Test func `each parameter is taken`() throws {
    let full = try #require(
      check(
        "interval=500ms jitter=2s fails=3 passes=2 port=8080 mandatory persistent match=ok",
        stream: #"health_check_timeout 2s; match ok { send "a\r\n\x00\xFf"; expect ~* "^x"; }"#))
    #expect(full.interval == 500 && full.jitter == 2000 && full.fails == 3 && full.passes == 2 && full.port == 8080)
    #expect(full.isMandatory && full.isPersistent && full.timeout == 2000)
    guard case .tcp(let match?) = full.kind, case .pattern(let pattern) = match.expected else {
      Issue.record("\(full.kind)")
      return
    }
    #expect(match.send == [0x61, 13, 10, 0, 255] && pattern.expression.pattern == "^x")
  }

  @Test func `an expression that ignores case is another one`() throws {
    let one = try #require(check("match=m", stream: "match m { expect ~ x; }"))
    let other = try #require(check("match=m", stream: "match m { expect ~* x; }"))
    #expect(one != other && one == check("match=m", stream: "match m { expect ~ x; }"))
  }

  @Test(arguments: [
    ("health_check uri=/;", "invalid parameter \"uri=/\""), ("health_check type=grpc;", "invalid parameter"),
    ("health_check udp;", "`udp` is nginx's, but not supported here | leave it out: sallyport passes no datagrams"),
    ("health_check intervall=1;", "invalid parameter \"intervall=1\" | did you mean \"interval\"?"),
    ("health_check match=no;", "no match block \"no\" | write it in stream"),
    ("health_check fails=0;", "invalid parameter \"fails=0\""),
    ("health_check persistent;", "\"persistent\" without \"mandatory\""),
    ("health_check fails=1 fails=1;", "duplicate parameter"),
    ("health_check_timeout 5x;", "health_check_timeout"),
    ("health_check; proxy_ssl on; proxy_ssl_name $ssl_server_name;", "that depends on the client"),
  ])
  func `what makes no sense is refused`(lines: String, problem: String) {
    let errors = stream(lines).errors
    #expect(errors.contains { $0.contains(problem) }, "\(errors)")
  }

  @Test(arguments: [
    ("match m { }", "says nothing"), ("match m { send a; } match m { send b; }", "duplicate match \"m\""),
    ("match m { send a; send b; }", "duplicate"), (#"match m { send "\x0"; }"#, "two hexadecimal digits"),
    (#"match m { expect "\xgg"; }"#, "two hexadecimal digits"), (#"match m { send ""; }"#, "an empty text"),
    ("match m { expect ~ \"(\"; }", "invalid regular expression"),
    ("match m { expect ! x; }", "invalid test in \"expect\""),
    ("match m { status 200; }", "\"status\""), ("match m { send $host; }", ""),
  ])
  func `a match block that makes no sense is refused`(block: String, problem: String) {
    let errors = stream("health_check;", stream: block).errors
    #expect(problem.isEmpty ? errors.isEmpty : errors.contains { $0.contains(problem) }, "\(errors)")
  }

  @Test func `there must be an upstream group to check`() {
    let alone = LoadedText("stream { server { listen 80; proxy_pass 10.0.0.1:1; health_check; } }").errors
    #expect(alone.contains { $0.contains("without an upstream group") }, "\(alone)")
    let returning = LoadedText("stream { server { listen 80; return x; health_check; } }").errors
    #expect(returning.contains { $0.contains("\"health_check\" in a server without proxy_pass") }, "\(returning)")
    let http = LoadedText("http { match m { send x; } server { listen 80; return 200; } }").errors
    #expect(http.contains { $0.contains("\"send\"") }, "\(http)")
  }

  @Test func `blocks of http and of stream may have the same name`() throws {
    let text = LoadedText(
      """
      http { match m { status 200; } upstream u { server 10.0.0.1:1; }
        server { listen 81; location / { proxy_pass http://u; health_check match=m; } } }
      stream { match m { expect x; } upstream u { server 10.0.0.1:1; }
        server { listen 82; proxy_pass u; health_check match=m; } }
      """)
    let servers = try #require(text.settings, "\(text.errors)").http.servers
    guard case .http(_, .some) = servers[0].root.locations[0][UpstreamPass.self]?[HealthCheckSettings.self]?.kind,
      case .tcp(.some) = servers[1].root[UpstreamPass.self]?[HealthCheckSettings.self]?.kind
    else {
      Issue.record("\(servers)")
      return
    }
  }

  // MARK: What a server says

  @Test(arguments: [
    ("expect +PONG;", ["+PONG\r\n"], true), ("expect +PONG;", ["+PO", "NG"], true),
    ("expect +PONG;", ["x+PONGx"], true),
    ("expect +PONG;", ["+PON"], false), ("expect +PONG;", [], false), ("expect \"\\x2bP\";", ["+PONG"], true),
    ("expect ~ \"^\\+PONG\";", ["+PONG"], true), ("expect ~ \"^\\+PONG\";", ["x+PONG"], false),
    ("expect ~ pong;", ["+PONG"], false), ("expect ~* pong;", ["+PONG"], true), ("send x;", [], true),
  ])
  func `is searched for what is expected`(match: String, pieces: [String], passes: Bool) throws {
    let result = try judged(match, pieces)
    #expect((result.passed || result.fault == nil) == passes, "\(result)")
    if !passes { #expect(result.fault?.hasPrefix("what it sent doesn't contain ") == true, "\(result)") }
  }

  @Test func `is searched as far as 64 KiB`() throws {
    let filler = String(repeating: "x", count: 32 * 1024)
    #expect(try judged("expect y;", [filler, filler.dropLast() + "y"]).passed)
    let late = try judged("expect y;", [filler, filler, "y"])
    #expect(!late.passed && late.fault != nil)
  }

  @Test func `is found however often it says a byte`() throws {
    let bytes = (0..<5000).map { $0 == 3000 ? "y" : "x" }
    let result = try judged("expect ~ y$|yx;", bytes)
    #expect(result.passed || result.fault == nil)
  }

}
