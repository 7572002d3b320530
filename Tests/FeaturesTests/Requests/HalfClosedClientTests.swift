@testable import Features
@testable import Forward
import Glibc
import TestSupport
import Testing
@testable import Traffic
import Transport

/// A client of HTTP/1 that ends its side after its request may read on. What it has asked for in full is answered in full.
@Suite struct `A client that has ended its side` {
  private static let address = "192.0.2.1"
  private static let size = 300_000

  /// Has the client take what waits for it, until the connection ends.
  private func takeAll(_ rig: Rig, _ client: ScriptedUpstream) async throws -> String {
    try await rig.turn(until: "the end of the connection") {
      client.isBlocked = false
      client.unblock()
      return client.isClosed
    }
    return client.sent
  }

  private static func body(_ text: String) -> Substring {
    text.firstRange(of: "\r\n\r\n").map { text[$0.upperBound...] } ?? ""
  }

  private func rig(_ scene: Scene, _ more: String) throws -> Rig {
    let folder = try scene.makeFolder("www")
    try scene.write("www/file", text: String(repeating: "x", count: Self.size))
    return try Rig("server { listen 80; root \(folder); \(more) }")
  }

  /// In the same event as the request, while its work waits for a thread, and while the client takes the response.
  @Test(arguments: ["", "location / { return 404; error_page 404 =200 /file; } location = /file { }"], [0, 1, 2])
  func `gets all of a file, whenever its end comes`(more: String, moment: Int) async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, more), pool = rig.worker.shared.pool, held = Flag()
    defer { held.raise() }
    for _ in 0..<BlockingWork.files.limits.lanes { _ = pool.run(.files, for: "held") { held.wait() } }
    let (client, connection) = try rig.connection()
    client.isBlocked = true
    client.answer("GET /file HTTP/1.1\r\nHost: h\r\n\r\n", ends: moment == 0)
    #expect(pool.waiting(.files, for: Self.address) == 1)
    if moment == 1 { client.answer("", ends: true) }
    held.raise()
    try await rig.turn(until: "the response") { connection.stream.waitingBytes > 0 }
    if moment == 2 { client.answer("", ends: true) }
    let text = try await takeAll(rig, client)
    #expect(text.hasPrefix("HTTP/1.1 200 ") && Self.body(text).utf8.count == Self.size)
  }

  @Test func `gets what was answered before its end came, between two requests`() async throws {
    let rig = try Rig("server { listen 80; return 200 \(String(repeating: "y", count: 4000)); }")
    let (client, _) = try rig.connection()
    client.isBlocked = true
    client.answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    client.answer("", ends: true)
    #expect(!client.isClosed)
    #expect(Self.body(try await takeAll(rig, client)).utf8.count == 4000)
  }

  @Test func `gets the answers of all requests that came before its end`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "location /short { return 200 short; }")
    let (client, _) = try rig.connection()
    client.answer("GET /file HTTP/1.1\r\nHost: h\r\n\r\nGET /short HTTP/1.1\r\nHost: h\r\n\r\n", ends: true)
    let text = try await takeAll(rig, client)
    #expect(text.hasSuffix("\r\n\r\nshort") && text.filter { $0 == "x" }.count >= Self.size)
  }

  @Test func `does not get more of an upstream's work, as in nginx, but for proxy_ignore_client_abort`() throws {
    for goesOn in [false, true] {
      for isAtOnce in [false, true] {
        let rig = try Rig.passing("proxy_ignore_client_abort \(goesOn ? "on" : "off");")
        let (client, _) = try rig.connection()
        client.answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n", ends: isAtOnce)
        if !isAtOnce {
          try rig.upstream.open()
          client.answer("", ends: true)
        }
        #expect(try rig.upstream.isClosed != goesOn)
        #expect(client.isClosed != goesOn)
        guard goesOn else { continue }
        try rig.upstream.open()
        try rig.upstream.answer(Rig.ok)
        #expect(client.sent.hasSuffix("\r\n\r\nok") && client.isClosed, "\(client.sent)")
      }
    }
  }

  @Test func `gets the rest of what an upstream has said in full`() async throws {
    let rig = try Rig.passing("proxy_buffers 64 16k; proxy_buffering on; limit_rate 0;")
    let (client, _) = try rig.connection()
    client.answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    client.isBlocked = true
    try rig.upstream.open()
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n" + String(repeating: "x", count: 40_000))
    client.answer("", ends: true)
    #expect(Self.body(try await takeAll(rig, client)).utf8.count == 40_000)
  }

  @Test func `gets the page of an upstream's failure`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "error_page 502 /file; location /up { proxy_pass http://127.0.0.1:9; }")
    let pool = rig.worker.shared.pool, held = Flag()
    defer { held.raise() }
    for _ in 0..<BlockingWork.files.limits.lanes { _ = pool.run(.files, for: "held") { held.wait() } }
    let (client, _) = try rig.connection()
    client.answer("GET /up HTTP/1.1\r\nHost: h\r\n\r\n")
    try rig.upstream.refuse()
    client.answer("", ends: true)
    held.raise()
    let text = try await takeAll(rig, client)
    #expect(text.hasPrefix("HTTP/1.1 502 ") && Self.body(text).utf8.count == Self.size)
  }

  @Test func `sends no request to an upstream after a wait`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "location / { try_files /none @up; } location @up { proxy_pass http://127.0.0.1:9; }")
    let (client, _) = try rig.connection()
    client.answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n", ends: true)
    try await rig.turn(until: "the end of the connection") { client.isClosed }
    #expect(client.sent.isEmpty && rig.upstreams.allSatisfy(\.isClosed))
  }

  @Test func `that was reset gets nothing, and its work ends`() throws {
    let rig = try Rig.passing("proxy_ignore_client_abort off;")
    let (client, _) = try rig.connection()
    client.answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    try rig.upstream.open()
    client.ready([.input, .peerEnd, .hangUp, .error])
    #expect(try rig.upstream.isClosed && client.isClosed && client.sent.isEmpty)
  }
}
