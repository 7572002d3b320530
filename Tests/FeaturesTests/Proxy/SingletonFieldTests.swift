import ConfigurationSupport
import Testing

@Suite struct `A singleton field that several lines set` {
  private static func sent(_ lines: String, _ path: String = "/", _ fields: String...) throws -> [String] {
    let rig = try Rig("server { listen 1080; location / { proxy_pass http://127.0.0.1:9; \(lines) } }")
    _ = try rig.ask(["GET \(path) HTTP/1.1", "Host: a"] + fields)
    let upstream = try rig.upstream
    upstream.open()
    return upstream.sent.split(separator: "\r\n").dropFirst().map(String.init)
  }

  @Test(arguments: [
    ("proxy_set_header Host a; proxy_set_header Host b;", "Host: b"),
    ("proxy_set_header host a; proxy_set_header HOST b;", "host: b"),
    ("proxy_set_header Host a; proxy_set_header Host \"\";", "Host: a"),
    ("proxy_set_header Host \"\";", "Host: 127.0.0.1:9"),
    ("proxy_set_header Host \"\"; proxy_set_header Host \"\";", "Host: 127.0.0.1:9"),
    ("proxy_set_header Host $arg_h;", "Host: 127.0.0.1:9"),
    ("proxy_set_header Host $arg_h; proxy_set_header Host $arg_x;", "Host: 127.0.0.1:9"),
    ("proxy_set_header Host b; proxy_set_header Host $arg_x;", "Host: b"),
    ("proxy_set_header Host $proxy_host; proxy_set_header Host $arg_x;", "Host: 127.0.0.1:9"),
  ])
  func `is the Host once, of the last line that has a value, else that of the upstream`(
    lines: String, host: String
  ) throws {
    #expect(try Self.sent(lines) == [host])
  }

  @Test func `goes out with the first value that the request has, from the last line backwards`() throws {
    let lines = """
      proxy_set_header X-First 1; proxy_set_header Authorization $arg_a; proxy_set_header authorization $arg_b;
      proxy_set_header X-Then 2; proxy_set_header X-Then 3; proxy_set_header Host h;
      """
    let others = ["X-Then: 2", "X-Then: 3", "Host: h"]
    for (query, value) in [("a=1", "1"), ("b=2", "2"), ("a=1&b=2", "2")] {
      #expect(
        try Self.sent(lines, "/?\(query)", "Authorization: client's") == ["X-First: 1", "Authorization: \(value)"]
          + others)
    }
    #expect(try Self.sent(lines, "/", "Authorization: client's") == ["X-First: 1"] + others)
  }

  @Test(arguments: ["Content-Type", "User-Agent", "Referer", "Range", "If-Range", "Sec-WebSocket-Key", "traceparent"])
  func `is any that a standard says is no list`(name: String) throws {
    let lines = "proxy_set_header \(name) a; proxy_set_header \(name.lowercased()) b;"
    #expect(try Self.sent(lines) == ["\(name): b", "Host: 127.0.0.1:9"])
  }

  @Test func `is told at the line that has no effect`() {
    func problems(_ lines: String) -> [String] {
      LoadedText("http { server { listen 80; location / {\n\(lines)\nproxy_pass http://127.0.0.1:9; } } }").problems
    }
    #expect(
      problems("proxy_set_header Host $host; proxy_set_header Host b;") == [
        "2:1 notice: \"Host\" is set here and by a later line: a request has this field once, so the last line counts "
          + "| remove this line; the other is at /etc/x.conf:2:30"
      ])
    #expect(problems("proxy_set_header Authorization a; proxy_set_header Authorization $arg_b;") == [])
  }
}
