@testable import Features
@testable import Forward
import TestSupport
import Testing
@testable import Traffic
import Transport

/// Exchanges with FastCGI, SCGI and uwsgi servers in memory.
@Suite struct `An exchange with a server of programs` {
  /// A record of FastCGI with at most 127 bytes. 6: STDOUT, 7: STDERR, 3: END_REQUEST.
  private static func record(_ type: Int, _ text: String = "", padding: Int = 0) -> String {
    let header = [1, type, 0, 1, 0, text.utf8.count, padding, 0].map { String(UnicodeScalar(UInt8($0))) }.joined()
    return header + text + String(repeating: "\0", count: padding)
  }

  private static func end(_ status: Int = 0) -> String { record(3, "\0\0\0\0\(UnicodeScalar(UInt8(status)))\0\0\0") }
  private static let page =
    record(6, "Status: 201 M\r\nX-A: b\r\n\r\nhe", padding: 3) + record(6, "llo") + record(6) + end()

  private func rig(_ pass: String = "fastcgi_pass u;", _ lines: String = "", servers: Int = 2) throws -> Rig {
    try Rig(
      """
      upstream u { server 127.0.0.1:9; \(servers > 1 ? "server 127.0.0.1:10;" : "") keepalive 4; }
      server { listen 80; location / { \(pass) \(lines) } }
      """)
  }

  private static let script = "fastcgi_param SCRIPT_FILENAME /s.php; fastcgi_param CONTENT_LENGTH $content_length;"

  @Test func `sends records, and the response is the client's, whatever the cut of its bytes`() throws {
    for cut in 0..<Self.page.utf8.count {
      let rig = try rig("fastcgi_pass u;", Self.script)
      let client = try rig.asked(["POST /a HTTP/1.1", "Host: h", "Content-Length: 3"], body: ["abc"])
      let sent = try rig.upstream.bytesSent
      #expect(sent.starts(with: [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 4]))
      #expect(sent.suffix(24) == [1, 5, 0, 1, 0, 3, 5, 0, 97, 98, 99, 0, 0, 0, 0, 0, 1, 5, 0, 1, 0, 0, 0, 0])
      let upstream = try rig.upstream
      upstream.answer(String(Self.page.unicodeScalars.prefix(cut).map(Character.init)))
      upstream.answer(String(Self.page.unicodeScalars.dropFirst(cut).map(Character.init)))
      #expect(client.status == 201 && client.body == "hello" && client.hasEnded && upstream.isClosed)
      #expect(client.head.contains("X-A: b\r\n") && !client.head.contains("Status:"))
    }
  }

  @Test func `keeps a connection that it asked to keep`() throws {
    let rig = try rig("fastcgi_pass u;", Self.script + "fastcgi_keep_conn on;", servers: 1)
    for number in 0..<3 {
      let client = number == 0 ? try rig.asked() : try rig.ask(Rig.get)
      #expect(try rig.upstream.bytesSent[10] == 1)
      try rig.upstream.answer(Self.page)
      #expect(try client.body == "hello" && !rig.upstream.isClosed)
    }
    #expect(rig.upstreams.count == 1)
  }

  @Test(arguments: [
    record(6) + end(), end(), end(2), record(6, "Status: none\r\n\r\n"), record(6, "a"), "HTTP/1.1 200 OK\r\n",
    "\u{1}\u{6}\0\u{2}\0\0\0\0", record(6, "no field\n\n"),
  ])
  func `takes nothing for a response that is none`(text: String) throws {
    let rig = try rig("fastcgi_pass u;", Self.script), client = try rig.asked()
    try rig.upstream.answer(text, ends: true)
    #expect(client.status == (rig.upstreams.count == 1 ? 502 : nil) && client.body.isEmpty == (client.status == nil))
  }

  @Test func `cuts a response whose server ends in the middle`() throws {
    for text in [
      Self.record(6, "\r\nabc"), Self.record(6, "Content-Length: 9\r\n\r\nabc") + Self.record(6) + Self.end(),
    ] {
      let rig = try rig("fastcgi_pass u;", Self.script), client = try rig.asked()
      try rig.upstream.answer(text, ends: true)
      #expect(client.status == 200 && !client.hasEnded && client.cutReason == .upstreamBroke)
    }
  }

  @Test func `hears what fastcgi_catch_stderr names`() throws {
    for (text, servers) in [("PHP Fatal", 2), ("PHP Notice", 1)] {
      let rig = try rig(
        "fastcgi_pass u;", Self.script + "fastcgi_catch_stderr Fatal; fastcgi_next_upstream invalid_header;")
      _ = try rig.asked()
      try rig.upstream.answer(Self.record(7, text) + Self.page)
      #expect(rig.upstreams.count == servers)
    }
  }

  @Test func `speaks SCGI, whose server ends with the length or the connection`() throws {
    let post = ["POST /a HTTP/1.1", "Host: h", "Transfer-Encoding: chunked"]
    for (text, ends) in [
      ("Status: 404\r\n\r\nhello", true), ("HTTP/1.1 404 No\r\nContent-Length: 5\r\n\r\nhello", false),
    ] {
      let rig = try rig("scgi_pass u;", "scgi_param A b; scgi_request_buffering off;")
      let client = try rig.asked(post, body: ["ab", "c"])
      let sent = try rig.upstream.sent
      #expect(sent.contains(":CONTENT_LENGTH\u{0}3\0SCGI\u{0}1\0A\0b\0") && sent.hasSuffix("\0,abc"))
      try rig.upstream.answer(text, ends: ends)
      #expect(try client.status == 404 && client.body == "hello" && client.hasEnded && rig.upstream.isClosed)
    }
  }

  @Test func `speaks uwsgi, with its modifiers`() throws {
    let rig = try rig("uwsgi_pass u;", "uwsgi_param A bc; uwsgi_modifier1 5; uwsgi_modifier2 7;")
    let client = try rig.asked()
    let sent = try rig.upstream.bytesSent
    #expect(sent[0] == 5 && sent[3] == 7 && Int(sent[1]) + Int(sent[2]) << 8 == sent.count - 4)
    #expect(Array(sent[4..<11]) == [1, 0, 65, 2, 0, 98, 99])
    try rig.upstream.answer("HTTP/1.1 200 OK\r\n\r\nfine", ends: true)
    #expect(client.body == "fine" && client.hasEnded)
  }
}
