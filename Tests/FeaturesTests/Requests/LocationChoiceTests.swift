import Bytes
@testable import Features
@testable import Forward
import Patterns
import Testing
@testable import Traffic

@Suite struct `The choice of a location` {
  /// Makes a server with empty locations.
  private func named(_ locations: [String], inside: [String: [String]] = [:]) throws -> Rig {
    let blocks = locations.map { name in
      "location \(name) { " + (inside[name] ?? []).map { "location \($0) { }" }.joined() + " }"
    }
    return try Rig("server { listen 1080; \(blocks.joined()) }")
  }

  private func chosen(_ rig: Rig, _ path: String) throws -> String {
    let client = try rig.ask("GET \(path) HTTP/1.1", "Host: a")
    let location = try #require(client.location)
    let isRoot = rig.live.servers.contains { $0.root === location }
    let text = isRoot ? "none" : spelling(location.settings.match)
    let first = client.captures.count > 1 ? " " + String(decoding: client.captures[1], as: UTF8.self) : ""
    return text + first
  }

  private func spelling(_ match: LocationMatch) -> String {
    switch match {
    case .prefix(let path): String(decoding: path, as: UTF8.self)
    case .prefixNoRegex(let path): "^~ " + String(decoding: path, as: UTF8.self)
    case .exact(let path): "= " + String(decoding: path, as: UTF8.self)
    case .regex(let pattern, _): "~ " + pattern.pattern
    case .named(let name): name
    }
  }

  @Test(arguments: [
    ("/", "/"), ("/x", "/"), ("/a", "/a"), ("/ab", "/a"), ("/a/b", "/a/"), ("/exact", "= /exact"), ("/exact/", "/"),
    ("/img/x.png", "^~ /img/"), ("/a/x.png", "~ \\.(png)$ png"), ("/a%2Fb", "/a/"), ("/b/../a/", "/a/"),
    ("//a///b", "/a/"),
  ])
  func `goes by exact, longest prefix and first regular expression`(path: String, expected: String) throws {
    let rig = try named(["/", "/a", "/a/", "= /exact", "^~ /img/", "~ \\.(png)$", "~ \\.(p.g)$"])
    #expect(try chosen(rig, path) == expected)
  }

  @Test func `without a location that fits there is none`() throws {
    #expect(try chosen(named(["/a"]), "/b") == "none")
  }

  @Test func `a prefix location's own are asked before regular expressions, which still may take it`() throws {
    let rig = try named(["/a", "~ \\.(png)$"], inside: ["/a": ["/a/b", "= /a/c.png"]])
    #expect(try chosen(rig, "/a/b") == "/a/b")
    #expect(try chosen(rig, "/a/b.png") == "~ \\.(png)$ png")
    #expect(try chosen(rig, "/a/c.png") == "= /a/c.png")
  }

  @Test func `what an outer regular expression captured is kept for a prefix location inside`() throws {
    // As in nginx, an inner prefix must begin with the outer location's text. The outer regular expression here
    // therefore also matches its own text.
    let rig = try named(["~ /a.*(z)"], inside: ["~ /a.*(z)": ["/a.*(z)/in", "~ ^/a(x)z$"]])
    #expect(try chosen(rig, "/abz") == "~ /a.*(z) z")
    #expect(try chosen(rig, "/a.*(z)/in") == "/a.*(z)/in z")
    #expect(try chosen(rig, "/axz") == "~ ^/a(x)z$ x")
  }

  static let passing = "proxy_pass http://127.0.0.1:9;"

  @Test func `a path that lacks just the slash of a passing location is sent to it`() throws {
    let rig = try Rig(
      """
      server { listen 8080; server_name s;
        location /a/ { \(Self.passing) }
        location ~ ^/a$ { return 200; }
        location /q/ { return 200; }
        location ^~ /b/c/ { location /b/c/d/ { \(Self.passing) } \(Self.passing) }
        location /own { return 200; } location /own/ { \(Self.passing) }
        location = /exact { return 200; } location /exact/ { \(Self.passing) }
        location /hidden/ { internal; \(Self.passing) }
      }
      """)
    func status(_ target: String) throws -> Substring {
      try rig.answer("GET \(target) HTTP/1.1\r\nHost: me\r\n\r\n").dropFirst(9).prefix(3)
    }
    func place(_ target: String) throws -> String? {
      let answer = try rig.answer("GET \(target) HTTP/1.1\r\nHost: me\r\n\r\n")
      #expect(answer.hasPrefix("HTTP/1.1 301 "))
      return answer.split(separator: "\r\n").first { $0.hasPrefix("Location: ") }.map { String($0.dropFirst(10)) }
    }
    #expect(try place("/a") == "http://me/a/")
    #expect(try place("/b/c?x=1&y") == "http://me/b/c/?x=1&y")
    #expect(try place("/b/c/d") == "http://me/b/c/d/")
    #expect(try place("/%61") == "http://me/a/")
    #expect(try status("/q") == "404")
    #expect(try status("/own") == "200")
    #expect(try status("/exact") == "200")
    #expect(try status("/hidden") == "404")
  }

  @Test func `a location inside an internal one is internal, too`() throws {
    let rig = try Rig(
      """
      server { listen 8080; server_name s;
        location /kept/ { internal; location /kept/in/ { return 200; } location ~ x$ { return 200; } return 200; }
        location /kept/open/ { return 200; }
        location /way { error_page 403 = /kept/in/a; return 403; }
      }
      """)
    func status(_ target: String) throws -> Substring {
      try rig.answer("GET \(target) HTTP/1.1\r\nHost: me\r\n\r\n").dropFirst(9).prefix(3)
    }
    for path in ["/kept/a", "/kept/in/a", "/kept/x"] { #expect(try status(path) == "404", "\(path)") }
    #expect(try status("/kept/open/a") == "200" && status("/way") == "200")
  }
}
