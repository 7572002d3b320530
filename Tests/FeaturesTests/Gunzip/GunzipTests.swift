import Bytes
import Compression
@testable import Features
@testable import Forward
import HTTP
import TestSupport
import Testing
@testable import Traffic

@Suite struct `Decompressing responses` {
  private static let text = String(repeating: "some words, ", count: 500)

  private func compressed(_ bytes: [UInt8]) throws -> [UInt8] {
    let stream = try #require(GzipStream(level: 6, length: nil))
    var output = ByteBuffer()
    #expect(bytes.withUnsafeBytes { stream.compress($0, .finish, to: &output) })
    return Array(output.readable)
  }

  private func head(_ length: Int, _ fields: [String] = [], coding: String = "gzip", status: String = "200 OK")
    -> [UInt8]
  {
    let lines =
      ["HTTP/1.1 \(status)", "Content-Length: \(length)", "Content-Encoding: \(coding)", "ETag: \"x\""] + fields
    return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
  }

  /// A client that gets `body` compressed from the upstream.
  private func answered(
    _ body: [UInt8], _ directives: String = "gunzip on;", asking: [String] = [], fields: [String] = [],
    coding: String = "gzip", status: String = "200 OK"
  ) throws -> MemoryStream {
    let rig = try Rig.passing(directives)
    let client = try rig.asked(["GET / HTTP/1.1", "Host: h"] + asking)
    try rig.upstream.answer(head(body.count, fields, coding: coding, status: status) + body)
    return client
  }

  @Test func `a client that takes no gzip gets the text, and fields that hold for it`() throws {
    let client = try answered(
      try compressed(Array(Self.text.utf8)), "gunzip on; gzip_vary on;",
      fields: ["Accept-Ranges: bytes", "Content-Digest: sha-256=:AA==:"])
    #expect(client.body == Self.text && client.hasEnded && client.head.contains("Transfer-Encoding: chunked"))
    #expect(client.head.contains("ETag: W/\"x\"") && client.head.contains("Vary: Accept-Encoding"))
    for name in ["Content-Encoding", "Content-Length", "Accept-Ranges", "Content-Digest"] {
      #expect(!client.head.contains(name), "\(name)")
    }
  }

  @Test(arguments: [
    ("gunzip off;", ["Accept-Encoding: br"], [String](), "gzip", "200 OK"),
    ("gunzip on;", ["Accept-Encoding: gzip"], [], "gzip", "200 OK"),
    ("gunzip on;", [], ["Cache-Control: public, no-transform"], "gzip", "200 OK"),
    ("gunzip on;", [], ["Content-Range: bytes 0-9/900"], "gzip", "206 Partial Content"),
    ("gunzip on;", [], [], "br", "200 OK"), ("gunzip on;", [], [], "gzip, gzip", "200 OK"),
  ])
  func `others stay as they are`(
    directives: String, asking: [String], fields: [String], coding: String, status: String
  ) throws {
    let client = try answered(
      Array("no gzip".utf8), directives, asking: asking, fields: fields, coding: coding, status: status)
    #expect(client.body == "no gzip" && client.hasEnded && client.head.contains("Content-Encoding: \(coding)\r\n"))
    #expect(client.head.contains("ETag: \"x\"") && client.head.contains("Content-Length: 7"))
  }

  @Test(arguments: [
    ("gzip_http_version 1.1;", "1.0", true), ("gzip_http_version 1.0;", "1.0", false), ("", "1.1", false),
    ("gzip_disable crawler;", "1.1", true),
  ])
  func `whom gzip's rules leave out gets the text`(directives: String, version: String, isText: Bool) throws {
    let rig = try Rig.passing("gunzip on; \(directives)")
    let lines = ["GET / HTTP/\(version)", "Host: h", "Accept-Encoding: gzip", "User-Agent: a Crawler"]
    let client = try rig.asked(lines), body = try compressed(Array("text".utf8))
    try rig.upstream.answer(head(body.count) + body)
    #expect((client.body == "text") == isText)
  }

  @Test func `the answer to HEAD says what that to GET would`() throws {
    let rig = try Rig.passing("gunzip on;")
    let client = try rig.asked(["HEAD / HTTP/1.1", "Host: h"])
    try rig.upstream.answer(head(900))
    #expect(client.hasEnded || client.isReleased)
    #expect(client.head.contains("ETag: W/\"x\"") && !client.head.contains("Content-Encoding"))
    #expect(!client.head.contains("Content-Length"))
  }

  @Test func `gzip that is damaged, or ends too early, breaks the response off behind what could be read`() throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let whole = try compressed(Array(Self.text.utf8))
    var damaged = whole
    damaged[whole.count - 6] ^= 1
    for body in [damaged, Array(whole.dropLast()), Array("plain text".utf8)] {
      let rig = try Rig.passing("gunzip on; error_log \(scene.path("error.log"));")
      let client = try rig.asked(["GET / HTTP/1.1", "Host: h"])
      try rig.upstream.answer(head(body.count) + body)
      #expect(client.cutReason == .upstreamBroke && !client.hasEnded)
      #expect(Self.text.hasPrefix(client.body))
    }
    let lines = scene.text("error.log")
    #expect(lines.contains("the gzip of the response is damaged") && lines.contains("ends too early"))
  }

  @Test func `an empty body stays empty`() throws {
    let client = try answered([])
    #expect(client.body.isEmpty && client.hasEnded)
  }

  // A megabyte of zeros has a thousand bytes, and a gigabyte a million.
  @Test func `for a client that takes nothing, a bomb stays compressed`() throws {
    let rig = try Rig.passing("gunzip on;")
    let client = try rig.ask("GET / HTTP/1.1", "Host: h")
    client.takesNothing = true
    try rig.upstream.open()
    let bomb = try compressed([UInt8](repeating: 0x61, count: 900_000))
    #expect(bomb.count < 2000)
    try rig.upstream.answer(head(bomb.count) + bomb)
    #expect(client.body.utf8.count >= 65_536 && client.body.utf8.count <= 65_536 + 32_768)
    #expect(rig.worker.responses.used <= GunzipStream.memory + 16_384 && client.watchedFor != nil && !client.hasEnded)
    client.takesNothing = false
    client.exchange?.streamDidDrain()
    #expect(client.hasEnded && client.body == String(repeating: "a", count: 900_000))
    #expect(rig.worker.responses.used == 0)
  }

  @Test func `in one turn of the loop a worker decompresses a bounded number of bytes`() throws {
    let rig = try Rig.passing("gunzip on;")
    let client = try rig.asked(["GET / HTTP/1.1", "Host: h"])
    let bomb = try compressed([UInt8](repeating: 0x61, count: 3 << 20))
    try rig.upstream.answer(head(bomb.count) + bomb)
    #expect(client.body.utf8.count == DecompressionTurn.size && !client.hasEnded)
    client.exchange?.clientDidLeave()
    #expect(rig.worker.responses.used == 0)
  }

  @Test func `what a rate keeps back makes the source wait, compressed`() throws {
    let rig = try Rig.passing("gunzip on; limit_rate 1k;")
    let client = try rig.asked(["GET / HTTP/1.1", "Host: h"])
    let bomb = try compressed([UInt8](repeating: 0x61, count: 900_000))
    try rig.upstream.answer(head(bomb.count) + bomb)
    let pacer = try #require(client.exchange?.progress.filters.find { $0 is ResponsePacer })
    #expect(pacer.kept.count < 100_000 && client.body.utf8.count < 2000)
    client.exchange?.clientDidLeave()
    #expect(rig.worker.responses.used == 0)
  }
}
