import Configuration
@testable import Features
@testable import Forward
import Language
import Observability
import TestSupport
import Testing
@testable import Traffic
import Transport
import Upstream

/// Exchanges with upstreams that don't speak HTTP.
@Suite struct `An upstream with a wire of its own` {
  private static let page = "HEAD 200 5\nDATA hel\nDATA lo\nEND\n"

  private func rig(_ lines: String = "", servers: Int = 1, http: String = "") throws -> Rig {
    let all = (0..<servers).map { "server 127.0.0.1:\(9 + $0);" }.joined()
    return try Rig(
      """
      \(http) upstream u { \(all) keepalive 4; }
      server { listen 80; location / { ping_pass u; \(lines) }
        location /http { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; } }
      """, features: PingPass.list)
  }

  /// The errors of a location with these lines.
  private static func errors(_ lines: String) -> [String] {
    let text = "events {} http { upstream u { server 127.0.0.1:9; } server { listen 80; location / { \(lines) } } }"
    return Configuration.load(
      bytes: Array(text.utf8), fileName: "/etc/test.conf", files: .disk, by: PingPass.list.directives
    ).diagnostics.filter { $0.severity == .error }.map(\.description)
  }

  @Test func `gets requests in its own bytes, and its response is the client's`() throws {
    let rig = try rig()
    let client = try rig.asked(["POST /a?b HTTP/1.1", "Host: h", "Content-Length: 5"], body: ["he", "llo"])
    #expect(try rig.upstream.sent == "PING POST /a?b client 192.0.2.1\n+5\nhello\n.\n")
    try rig.upstream.answer(Self.page)
    #expect(client.status == 200 && client.body == "hello" && client.hasEnded && client.isReleased)
    #expect(client.head.contains("Content-Length: 5\r\n"))
  }

  @Test func `serves one request after another on a kept session, which HTTP never gets`() throws {
    let rig = try rig()
    for _ in 0..<3 {
      let client = rig.upstreams.isEmpty ? try rig.asked() : try rig.ask(Rig.get)
      try rig.upstream.answer(Self.page)
      #expect(client.body == "hello")
    }
    #expect(rig.upstreams.count == 1)
    _ = try rig.asked(["GET /http HTTP/1.1", "Host: h"])
    #expect(try rig.upstreams.count == 2 && rig.upstream.sent.hasPrefix("GET /http HTTP/1.1\r\n"))
    try rig.upstream.answer(Rig.ok)
    let client = try rig.ask(Rig.get)
    #expect(rig.upstreams.count == 2 && rig.upstreams[0].sent.hasPrefix("PING GET /a "))
    rig.upstreams[0].answer(Self.page)
    #expect(client.body == "hello")
  }

  @Test func `is understood whatever the cut of its bytes`() throws {
    let text = "SAID one\nHEAD 404\nDATA a\nSAID two\nDATA b\nEND\n"
    for cut in 1..<text.utf8.count {
      let rig = try rig(), client = try rig.asked()
      try rig.upstream.answer(String(text.prefix(cut)))
      #expect(!client.hasEnded)
      try rig.upstream.answer(String(text.dropFirst(cut)))
      #expect(client.status == 404 && client.body == "ab" && client.hasEnded)
    }
    let rig = try rig(), client = try rig.asked()
    for character in text { try rig.upstream.answer(String(character)) }
    #expect(client.status == 404 && client.body == "ab" && client.hasEnded)
  }

  @Test(arguments: ["", "HEAD 20", "SAID x\n"])
  func `that closes before a head is followed by another`(text: String) throws {
    let rig = try rig(servers: 2), client = try rig.asked()
    try rig.upstream.answer(text, ends: true)
    #expect(rig.upstreams.map(\.server) == [0, 1] && client.status == nil)
    try rig.upstream.open()
    try rig.upstream.answer(Self.page)
    #expect(client.body == "hello")
  }

  @Test(arguments: ["END\n", "BYE\n", "DATA x\n", "NONSENSE\n", "HEAD 2000\n", "HEAD 101\n", "HEAD 200 1 \nHEAD 200\n"])
  func `whose bytes are no response is followed by another with invalid_header alone`(text: String) throws {
    for (word, tries) in [("error timeout", 1), ("invalid_header", 2)] {
      let rig = try rig("proxy_next_upstream \(word);", servers: 2), client = try rig.asked()
      try rig.upstream.answer(text)
      // A second head comes too late for another server.
      let isLate = text.hasPrefix("HEAD 200 1 ")
      #expect(rig.upstreams.count == (isLate ? 1 : tries))
      #expect(isLate ? client.cutReason == .upstreamBroke : client.status == (tries == 1 ? 502 : nil))
    }
  }

  @Test(arguments: ["HEAD 200 5\nDATA hel\nEND\n", "HEAD 200 5\nDATA hel\n", "HEAD 200\nDATA hel\n?\n"])
  func `that ends in the middle cuts the client's response`(text: String) throws {
    let rig = try rig(), client = try rig.asked()
    try rig.upstream.answer(text, ends: true)
    #expect(client.status == 200 && !client.hasEnded && client.cutReason == .upstreamBroke)
  }

  @Test func `sends no more than it has announced, and serves no other request then`() throws {
    let rig = try rig(), client = try rig.asked()
    try rig.upstream.answer("HEAD 200 2\nDATA abc\nDATA d\nEND\n")
    #expect(try client.body == "ab" && client.hasEnded && rig.upstream.isClosed)
  }

  @Test(arguments: ["BYE\n", "END\nHEAD 200\n", "END\n\n"])
  func `is closed if it says so or more follows`(end: String) throws {
    let rig = try rig(), client = try rig.asked()
    try rig.upstream.answer("HEAD 200\nDATA a\n\(end)")
    #expect(try client.body == "a" && client.hasEnded && rig.upstream.isClosed)
  }

  @Test func `that says something between two requests is not used`() throws {
    let rig = try rig()
    _ = try rig.asked()
    try rig.upstream.answer(Self.page)
    try rig.upstream.answer("SAID late\n")
    #expect(try rig.upstream.isClosed)
    _ = try rig.ask(Rig.get)
    #expect(rig.upstreams.count == 2)
  }

  @Test func `answers HEAD without a body, and nobody waits for one`() throws {
    let rig = try rig(), head = ["HEAD /a HTTP/1.1", "Host: h"], client = try rig.asked(head)
    try rig.upstream.answer("HEAD 200 5\nDATA hel\nDATA lo\nEND\n")
    #expect(client.status == 200 && client.body == "" && client.isReleased && client.head.contains("Content-Length: 5"))
    let second = try rig.ask(head)
    #expect(rig.upstreams.count == 1)
    try rig.upstream.answer("HEAD 200\nDATA hel\n")
    #expect(try second.isReleased && second.body == "" && rig.upstream.isClosed)
  }

  @Test func `waits while its client takes nothing`() throws {
    let rig = try rig("proxy_buffering off;"), client = try rig.asked()
    client.held = 1 << 30
    try rig.upstream.answer("HEAD 200\nDATA abcde\nDATA f\n")
    let taken = client.body
    try rig.upstream.answer("DATA g\nEND\n")
    #expect(client.body == taken && !client.hasEnded)
    client.held = 0
    client.exchange?.streamDidDrain()
    rig.loop.cork.flush()
    #expect(client.body == "abcdefg" && client.hasEnded)
  }

  @Test func `that responds before it has the whole request serves no other one`() throws {
    let rig = try rig("proxy_request_buffering off;")
    let lines = ["POST /a HTTP/1.1", "Host: h", "Content-Length: 50"]
    let client = try rig.ask(lines, body: ["he"], isWhole: false)
    try rig.upstream.open()
    #expect(try rig.upstream.sent.hasSuffix("+2\nhe\n"))
    try rig.upstream.answer(Self.page)
    #expect(try client.body == "hello" && rig.upstream.isClosed)
  }

  @Test func `that closed its kept session gets the request over a new one`() throws {
    let rig = try rig()
    _ = try rig.asked()
    try rig.upstream.answer(Self.page)
    let client = try rig.ask(Rig.get)
    #expect(rig.upstreams.count == 1)
    try rig.upstream.answer("", ends: true)
    #expect(rig.upstreams.count == 2 && client.status == nil)
    try rig.upstream.open()
    try rig.upstream.answer(Self.page)
    #expect(client.body == "hello")
  }

  @Test func `has what it says in the error log, at most a hundred lines of an exchange`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try rig(http: "error_log \(scene.path("error.log")) info;"), client = try rig.asked()
    try rig.upstream.answer("SAID first. \nHEAD 200\n" + String(repeating: "SAID more\n", count: 200) + "END\n")
    #expect(client.hasEnded)
    let lines = scene.text("error.log").split(separator: "\n")
    let told = lines.filter { $0.contains("PING sent") }
    #expect(told.count == 101 && told[100].contains("PING sent more in stderr, which is left out"))
    #expect(told[0].contains("PING sent in stderr: \"first\" while reading response header from upstream, client: "))
    #expect(told[0].contains("upstream: \"ping://127.0.0.1:9\""))
    #expect(told[1].contains("\"more\" while reading upstream"))
  }

  @Test func `can be refused for what it says before its head, and not after`() throws {
    let rig = try rig("proxy_next_upstream invalid_header;", servers: 2), client = try rig.asked()
    try rig.upstream.answer("SAID fatal\n" + Self.page)
    #expect(rig.upstreams.count == 2)
    try rig.upstream.open()
    try rig.upstream.answer("HEAD 200\nSAID fatal\nEND\n")
    #expect(client.status == 200 && client.hasEnded)
  }

  @Test(arguments: [
    ("message_signature sign; message_signature_key k hmac-sha256 /k;", "\"message_signature\" in effect"),
    ("proxy_auth basic; proxy_auth_user_file /users;", "\"proxy_auth\" in effect for \"ping_pass\": it answers"),
    ("message_envelope on; message_envelope_cipher aes-256-gcm; message_envelope_key /k;", "\"message_envelope\" in"),
    ("health_check uri=/up;", "\"health_check\" with a request or \"match\" at a server of PING"),
    ("health_check type=grpc;", "\"health_check\" with a request or \"match\" at a server of PING"),
  ])
  func `has nothing that only HTTP has`(line: String, message: String) {
    let found = Self.errors("ping_pass u; \(line)")
    #expect(found.contains { $0.contains(message) }, "\(found)")
  }

  @Test func `is checked by a connection, and named as its protocol is spelt`() throws {
    let rig = try rig("health_check interval=10s;")
    let location = try #require(rig.live.generation.http.servers[0].root.locations.first)
    let pass = try #require(location[UpstreamPass.self])
    #expect(pass[HealthCheckSettings.self]?.kind == .tcp(match: nil))
    #expect(pass.destination(rig.live.generation.http) == "ping://u")
  }

  @Test func `takes no path in its line`() {
    #expect(Self.errors("ping_pass 127.0.0.1:9/x;").first?.contains("cannot have a URI part") == true)
  }
}
