import Configuration
import ConfigurationSupport
import Observability
@testable import Review
import TestSupport
import Testing

@testable import Language

@Suite struct `What check prints` {
  private func report(
    _ text: String, isStrict: Bool = false, detail: CheckReport.Detail = .summary
  ) throws -> (CheckReport, path: String) {
    let scene = try Scene()
    defer { scene.end() }
    let path = try scene.write("test.conf", text: text)
    return (Check(path).report(isStrict: isStrict, detail: detail), path)
  }

  @Test func `an error shows its line with a caret below the place`() throws {
    let (report, path) = try report("events {}\nhttp {\n\tserver { lisen 1; }\n}\n")
    let lines = report.lines(isColoured: false)
    #expect(lines.first?.hasPrefix("\(path):3:11: error: ") == true, "\(lines)")
    #expect(lines.dropFirst().first == "     server { lisen 1; }", "\(lines)")
    #expect(lines.dropFirst(2).first == "              ^", "\(lines)")
    #expect(!report.isValid && lines.last == "configuration \(path) is not valid: 1 error, 1 warning")
    let coloured = report.lines(isColoured: true)
    #expect(coloured.first?.contains("\u{1B}[31;1merror\u{1B}[0m: ") == true)
    #expect(!lines.contains { $0.contains("\u{1B}") })
  }

  @Test func `an excerpt shows no secret`() throws {
    let (report, _) = try report(
      """
      events {}
      http { server { listen 1; location / { proxy_set_header Authorization "Basic c2VjcmV0"; nonsense 1; } } }
      """)
    let lines = report.lines(isColoured: false)
    let shown = try #require(lines.first { $0.contains("Authorization") }, "\(lines)")
    #expect(shown.contains("Authorization ********; nonsense") && !shown.contains("c2VjcmV0"))
    #expect(!report.json.contains("c2VjcmV0"))
    let caret = try #require(lines.first { $0.hasSuffix("^") })
    #expect(shown.dropFirst(caret.count - 1).hasPrefix("nonsense"), "\(lines)")
  }

  @Test func `a line is shown as far as it can be read`() throws {
    let (report, _) = try report("events {}\nhttp { server { proxy_set_header Authorization \"Basic c2VjcmV0; } }\n")
    #expect(!report.isValid)
    let lines = report.lines(isColoured: false)
    #expect(!lines.joined().contains("c2VjcmV0"))
    #expect(lines.dropFirst().first == "    http { server { proxy_set_header Authorization …", "\(lines)")
    #expect(lines.dropFirst(2).first?.count == "    http { server { proxy_set_header Authorization ^".count, "\(lines)")
  }

  @Test func `credentials without quotes are masked in the line of their error`() throws {
    let (report, _) = try report("events {}\nhttp { server { proxy_set_header Authorization Basic c2VjcmV0 more; } }\n")
    let lines = report.lines(isColoured: false)
    #expect(!report.isValid && !lines.joined().contains("c2VjcmV0"), "\(lines)")
    #expect(lines.contains { $0.contains("Authorization ******** ******** ********;") }, "\(lines)")
  }

  @Test(arguments: [
    ("events {}\nhttp {\n  server { listen 1; }\n  {\n}\n", "  {", 3),
    ("events {}\nhttp {\n  { server { listen 1; } }\n}\n", "  { …", 3),
    ("events {}\nhttp { server { listen 1; } } {\n", "http { server { listen 1; } } {", 31),
    ("{\n", "{", 1), ("events {};\n", "events {};", 10), ("events {} }\n", "events {} }", 11),
  ])
  func `an unexpected brace or semicolon shows its line`(text: String, line: String, column: Int) throws {
    let (report, _) = try report(text)
    let lines = report.lines(isColoured: false)
    let place = try #require(lines.firstIndex { $0.contains("unexpected \"") }, "\(lines)")
    #expect(lines.dropFirst(place + 1).first == "    \(line)", "\(lines)")
    #expect(lines.dropFirst(place + 2).first == "    " + String(repeating: " ", count: column - 1) + "^", "\(lines)")
  }

  @Test func `directives without effect are one line for a person`() throws {
    let text = "events { use epoll; }\nhttp { sendfile on; server { listen 1; sendfile off; return 204; } }\n"
    let (report, _) = try report(text)
    let lines = report.lines(isColoured: false)
    #expect(lines.filter { $0.contains("epoll") || $0.contains("sendfile") }.count == 1, "\(lines)")
    let whole = try self.report(text, detail: .everything).0.lines(isColoured: false)
    #expect(whole.count { $0.contains("notice:") } == 3, "\(whole)")
    for told in [whole.joined(), report.json] {
      #expect(told.contains("is taken and has no effect: the event loop always uses epoll"), "\(told)")
    }
    #expect(
      lines.suffix(2).first == "notice: taken, and without effect: use, sendfile; `sallyport check --verbose` says why")
  }

  @Test func `a long line is cut around the place`() throws {
    let filler = String(repeating: "x", count: 400)
    let (report, _) = try report(
      "events {} http { map $uri $a { \(filler) 1; } nonsense 1; map $uri $b { \(filler) 1; } }")
    let lines = report.lines(isColoured: false)
    let place = try #require(lines.firstIndex { $0.hasSuffix("^") }, "\(lines)")
    let shown = lines[place - 1]
    #expect(shown.count < 130 && shown.dropFirst(lines[place].count - 1).hasPrefix("nonsense"), "\(lines)")
  }

  @Test func `errors stand before warnings, and JSON says the same`() throws {
    let warning = Diagnostic(.warning, at: nil, "later")
    let error = Diagnostic(.error, at: SourceLocation(file: "none.conf", line: 1, column: 1), "first", hint: "do")
    let report = CheckReport(
      "x.conf", [warning, error],
      policy: PolicyReport(
        [
          PolicyLine(level: 0, label: "server", text: "a", place: nil),
          PolicyLine(level: 1, label: "listen", text: "127.0.0.1:80", place: nil),
          PolicyLine(level: 1, label: "location", text: "/", place: nil),
          PolicyLine(level: 2, label: "upstream", text: "u", place: nil),
          PolicyLine(level: 2, label: "", text: "and more", place: nil),
        ], doors: ["a door"]),
      SourceExcerpts(ConfigurationDump(ConfigurationSource("none.conf"))),
      isStrict: true)
    #expect(
      report.lines(isColoured: false) == [
        "none.conf:1:1: error: first", "    hint: do", "warning: later", "", "server a",
        "  listen          127.0.0.1:80", "  location /", "    upstream      u", "                  and more", "",
        "a door", "", "configuration x.conf is not valid: 2 errors",
      ])
    #expect(
      report.json
        == #"{"configuration":"x.conf","valid":false,"diagnostics":[{"severity":"error","code":"first","file":"none.conf","#
        + #""line":1,"column":1,"message":"first","hint":"do","source":null},{"severity":"warning","code":"later","file":null,"#
        + #""line":null,"column":null,"message":"later","hint":null,"source":null}],"policy":["server a","#
        + #""  listen          127.0.0.1:80","  location /","    upstream      u","                  and more","","a door",""],"#
        + #""servers":[{"kind":"server","name":"a","file":null,"line":null,"column":null,"rules":[{"label":"listen","#
        + #""text":"127.0.0.1:80","file":null,"line":null,"column":null}],"locations":[{"name":"/","rules":[{"label":"#
        + #""upstream","text":"u and more","file":null,"line":null,"column":null}]}]}],"open_upstreams":["a door"]}"#)
  }

  // MARK: Whole reports

  /// Checks the files alone, in a folder that has server.pem, server.key and ca.pem. Returns the lines, the path of the
  /// configuration left out.
  private func printed(_ text: String) throws -> [String] {
    try withScene { scene in
      try scene.serverFiles()
      let path = try scene.write("test.conf", text: Sallyport.withUser(text))
      return Check(path, .files).report(isStrict: false).lines(isColoured: false).map {
        $0.replacing(path, with: "FILE")
      }
    }
  }

  /// The same, of a policy: without its columns.
  private func policy(_ text: String) throws -> [String] {
    try printed(text).map { $0.split(separator: " ").joined(separator: " ") }
  }

  @Test func `contradictions are all told at once, with place and hint`() throws {
    let said = try printed(
      """
      events {}
      http {
        server {
          listen 127.0.0.1:1443 ssl;
          ssl_certificate server.pem; ssl_certificate_key server.key;
          ssl_verify_client on;
          location /silent { proxy_pass https://127.0.0.1:1; }
          location /off { proxy_pass https://127.0.0.1:1; proxy_ssl_verify off; proxy_ssl_trusted_certificate ca.pem; }
          location /pin { proxy_pass https://127.0.0.1:1; proxy_ssl_pin sha256//short; }
          location /typo { proxy_pas http://127.0.0.1:1; }
          location /later { ssi on; }
        }
      }
      """)
    for (place, words) in [
      ("6:5", "ssl_client_certificate"), ("7:24", "proxy_ssl_verify"), ("8:53", "proxy_ssl_verify"),
      ("9:67", "sha256//short"), ("10:22", "proxy_pass"), ("11:23", "ssi"),
    ] {
      let told = said.drop { !$0.hasPrefix("FILE:\(place): error: ") }.prefix(4)
      #expect(told.contains { $0.contains(words) }, "\(place) \(words) in \(said)")
    }
    #expect(said.contains { $0.contains("hint: ") })
    #expect(said.last == "configuration FILE is not valid: 6 errors, 2 warnings")
  }

  @Test func `swapped files of a certificate and its key are told as that`() throws {
    let said = try printed(
      """
      events {} http { server { listen 127.0.0.1:1 ssl; ssl_certificate server.key; ssl_certificate_key server.pem;
      return 204; } }
      """)
    #expect(said.contains { $0.contains("server.pem\" holds a certificate: the two files are swapped") }, "\(said)")
  }

  @Test func `a file that is not there is an error that names it`() {
    let report = Check("/nowhere/none.conf", .files).report(isStrict: false)
    let said = report.lines(isColoured: false)
    #expect(!report.isValid && said.contains { $0.contains("none.conf") && $0.contains("no such file") }, "\(said)")
  }

  @Test func `what could not be loaded has no policy`() throws {
    let said = try policy(
      """
      events {} http {
      server { listen 127.0.0.1:1 ssl; server_name broken.test; ssl_certificate none.pem; ssl_certificate_key server.key;
        ssl_client_certificate ca.pem; ssl_verify_client on;
        location / { proxy_pass https://127.0.0.1:2; proxy_ssl_pin none-pin.pem; } }
      server { listen 127.0.0.1:3; server_name whole.test;
        location /off { proxy_pass https://127.0.0.1:2; proxy_ssl_verify off; proxy_ssl_pin none-pin.pem; }
        location /password { proxy_pass http://127.0.0.1:2; proxy_auth basic; proxy_auth_user_file none; }
        location /good { proxy_pass https://127.0.0.1:2; proxy_ssl_trusted_certificate ca.pem; } } }
      """)
    let unknown = "unknown: its files could not be loaded, see the errors above"
    #expect(said.count { $0 == "TLS \(unknown)" } == 3, "\(said)")
    #expect(said.contains("answers \(unknown)"))
    // What is sound is told, and once only.
    for line in ["chain must verify, depth 1", "name must be 127.0.0.1", "pin none"] {
      #expect(said.count { $0 == line } == 1, "\(line) in \(said)")
    }
    for wrong in ["clients anybody", "chain NOT verified", "name NOT checked", "0 users", "clients only"] {
      #expect(!said.contains { $0.contains(wrong) }, "\(wrong) in \(said)")
    }
  }

  @Test func `a cause is told before what follows from it`() throws {
    let said = try printed(
      """
      events {} http { server { listen 127.0.0.1:1 ssl; ssl_verify_client on; ssl_client_certificat ca.pem;
      ssl_certificate server.pem; ssl_certificate_ke server.key; } upstream u { servr 127.0.0.1:1; } }
      """)
    let told = said.filter { $0.contains("error: ") || $0.contains("warning: ") }
    try #require(told.count > 3, "\(said)")
    for (place, name) in ["ssl_client_certificat", "ssl_certificate_ke", "servr"].enumerated() {
      #expect(told[place].contains("unknown directive \"\(name)\""), "\(told)")
    }
  }
}
