import ConfigurationSupport
@testable import Features
@testable import Forward
import HTTP
import Testing
import Transport
@testable import Traffic

/// `sub_filter` between a client and an upstream in memory.
@Suite struct `Replaced texts of responses` {
  private func answer(
    _ directives: String, _ body: String, fields: String = "", status: String = "200 OK", request: String = "GET /?b=Z"
  ) throws -> MemoryStream {
    let rig = try Rig.passing(directives)
    let client = try rig.asked(["\(request) HTTP/1.1", "Host: h"])
    try rig.upstream.answer(
      "HTTP/1.1 \(status)\r\nContent-Type: text/html\r\n\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
    return client
  }

  @Test(arguments: [
    ("sub_filter b X;", "abcBd", "aXcBd"), ("sub_filter b X; sub_filter_once off;", "abcBd", "aXcXd"),
    ("sub_filter b ''; sub_filter a bb;", "ab", "bb"), ("sub_filter b $arg_b; sub_filter_once off;", "bb", "ZZ"),
    ("sub_filter $arg_b Y;", "xz", "xY"), ("sub_filter $arg_none Y;", "xz", "xz"),
    ("sub_filter abc X;", "ab", "ab"), ("sub_filter_types *; sub_filter a b;", "a", "b"),
    ("sub_filter_types text/css; sub_filter a b;", "a", "b"),
  ])
  func `are replaced as the lines say`(directives: String, body: String, got: String) throws {
    let client = try answer(directives, body)
    #expect(client.body == got && client.isReleased)
  }

  @Test func `a changed response has no length, no ranges, and nothing that was true of other bytes`() throws {
    let fields =
      "ETag: \"1\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nAccept-Ranges: bytes\r\nContent-MD5: x\r\n"
    let changed = try answer("sub_filter a b;", "x", fields: fields)
    for name in ["Content-Length", "ETag", "Last-Modified", "Accept-Ranges", "Content-MD5"] {
      #expect(!changed.head.contains("\(name):"), "\(name)")
    }
    let kept = try answer("sub_filter a b; sub_filter_last_modified on;", "x", fields: fields)
    #expect(kept.head.contains("ETag: W/\"1\"\r\n") && kept.head.contains("Last-Modified: Sun, 06"))
    #expect(!kept.head.contains("Accept-Ranges"))
  }

  @Test(arguments: [
    ("Content-Encoding: gzip\r\n", "200 OK"), ("Content-Range: bytes 0-0/9\r\n", "206 Partial Content"),
  ])
  func `coded bodies and parts stay as they are`(fields: String, status: String) throws {
    let client = try answer("sub_filter a b;", "a", fields: fields + "ETag: \"1\"\r\n", status: status)
    #expect(client.body == "a" && client.head.contains("Content-Length: 1\r\n") && client.head.contains("ETag: \"1\""))
  }

  @Test func `the head of HEAD is that of GET`() throws {
    let rig = try Rig.passing("sub_filter a b;")
    let client = try rig.asked(["HEAD / HTTP/1.1", "Host: h"])
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\nETag: \"1\"\r\n\r\n")
    #expect(!client.head.contains("Content-Length") && !client.head.contains("ETag"))
  }

  @Test func `a text that is cut by the upstream's pieces is found`() throws {
    let rig = try Rig.passing("sub_filter needle pin;")
    let client = try rig.asked(["GET / HTTP/1.1", "Host: h"])
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10\r\n\r\nx ne")
    try rig.upstream.answer("ed")
    try rig.upstream.answer("le y")
    #expect(client.body == "x pin y")
  }

  @Test func `a body that broke off ends as broken, with all that came`() throws {
    let rig = try Rig.passing("sub_filter needle pin;")
    let client = try rig.asked(["GET / HTTP/1.1", "Host: h"])
    try rig.upstream.answer(
      "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10\r\n\r\nx need", ends: true)
    #expect(client.body == "x need")
  }

  @Test func `a body that grows is read only as fast as the client takes it`() throws {
    let long = String(repeating: "y", count: 1000)
    let rig = try Rig.passing("sub_filter x \(long); sub_filter_once off;")
    let client = try rig.asked(["GET / HTTP/1.1", "Host: h"])
    client.takesNothing = true
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 300\r\n\r\n")
    try rig.upstream.answer(String(repeating: "x", count: 300))
    #expect(client.bytes.count > 65_536 && client.bytes.count < 140_000 && client.watchedFor != nil)
    client.takesNothing = false
    client.exchange?.streamDidDrain()
    #expect(client.bytes.count == 300_000 && client.isReleased)
  }

  @Test func `a body that grows much takes several turns of the loop`() throws {
    let long = String(repeating: "y", count: 10_000)
    let rig = try Rig.passing("sub_filter x \(long); sub_filter_once off;")
    let client = try rig.asked(["GET / HTTP/1.1", "Host: h"])
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 300\r\n\r\n")
    try rig.upstream.answer(String(repeating: "x", count: 300))
    #expect(client.bytes.count > 1 << 20 && client.bytes.count < 2 << 20)
    let filter = try #require(client.exchange?.progress.filters.find { $0 is Substitution })
    for _ in 0..<3 { filter.again() }
    #expect(client.bytes.count == 3_000_000 && client.isReleased)
  }

  @Test func `an empty text to look for is an error`() {
    let loaded = LoadedText("http { sub_filter '' x; server { listen 80; return 204; } }")
    #expect(loaded.errors.first?.contains("the text to look for in \"sub_filter\" is empty") == true)
  }
}
