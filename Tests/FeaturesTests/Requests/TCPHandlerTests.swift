import Bytes
@testable import Features
@testable import Forward
import TestSupport
import Testing
@testable import Traffic
import Transport

/// `proxy_pass` in `stream`: bytes in both directions, and the ends of both sides.
@Suite struct `A session between a client and an upstream` {
  private static let facts =
    "$status $bytes_received $bytes_sent $upstream_addr $upstream_bytes_sent $upstream_bytes_received"

  @Test func `bytes go both ways, and the log counts them`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.passingTCP("", scene, log: Self.facts)
    let client = try TCPClient(rig)
    client.say("early ")
    #expect(try rig.upstream.sent.isEmpty)
    try rig.upstream.open()
    #expect(try rig.upstream.sent == "early ")
    client.say("late")
    #expect(try rig.upstream.sent == "early late")
    try rig.upstream.answer("answer")
    #expect(client.heard() == "answer" && !client.hasEnd)
    client.end()
    #expect(client.heard().isEmpty && client.hasEnd)
    #expect(try rig.upstream.isClosed && rig.upstream.hasProxyEnded)
    #expect(rig.accessLines(scene) == ["200 10 6 127.0.0.1:9 10 6"])
  }

  @Test func `an upstream that ends first ends the session behind its bytes`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.passingTCP("", scene)
    let client = try TCPClient(rig)
    try rig.upstream.open()
    try rig.upstream.answer("all of it", ends: true)
    #expect(client.heard() == "all of it" && client.hasEnd && client.session.isClosed)
    #expect(rig.accessLines(scene) == ["200"])
  }

  @Test func `with half-closing, each side ends by itself`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.passingTCP("proxy_half_close on;", scene, log: "$status $bytes_received $bytes_sent")
    let client = try TCPClient(rig)
    try rig.upstream.open()
    client.say("question")
    client.end()
    #expect(try rig.upstream.sent == "question" && rig.upstream.hasProxyEnded && !rig.upstream.isClosed)
    try rig.upstream.answer("answer", ends: true)
    #expect(client.heard() == "answer" && client.hasEnd && client.session.isClosed)
    #expect(rig.accessLines(scene) == ["200 8 6"])
  }

  @Test func `with half-closing, the upstream may end first`() throws {
    let rig = try Rig.passingTCP("proxy_half_close on;")
    let client = try TCPClient(rig)
    try rig.upstream.open()
    let upstream = try rig.upstream
    upstream.answer("bye", ends: true)
    #expect(client.heard() == "bye" && client.hasEnd && !client.session.isClosed)
    client.say("still here")
    #expect(upstream.sent == "still here" && !upstream.isClosed)
    client.end()
    #expect(client.session.isClosed && upstream.isClosed)
  }

  @Test func `a client that breaks off ends the session, also with half-closing`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.passingTCP("proxy_half_close on;", scene)
    let client = try TCPClient(rig)
    try rig.upstream.open()
    client.session.transport.fail(.truncated)
    #expect(try client.session.isClosed && rig.upstream.isClosed)
    // An orderly end would tell the upstream that these were all bytes.
    #expect(try !rig.upstream.hasProxyEnded)
    #expect(rig.accessLines(scene) == ["200"])
  }

  // MARK: Back-pressure

  @Test func `what waits for an upstream is delivered before the session ends`() throws {
    let rig = try Rig.passingTCP()
    let client = try TCPClient(rig)
    let upstream = try rig.upstream
    upstream.open()
    upstream.isBlocked = true
    client.say("last words")
    client.end()
    #expect(!client.session.isClosed && upstream.sent.isEmpty)
    upstream.unblock()
    #expect(client.session.isClosed && upstream.sent == "last words" && upstream.hasProxyEnded)
  }

  @Test func `an upstream is read no further while its client takes nothing`() throws {
    let rig = try Rig.passingTCP("proxy_buffer_size 4k;")
    let client = try TCPClient(rig)
    let upstream = try rig.upstream
    upstream.open()
    let sent = 4_000_000
    upstream.answer(String(repeating: "x", count: sent))
    let waiting = client.session.transport.pendingCount
    #expect(waiting > 0 && waiting < sent / 2 && upstream.hasBufferedInput)
    var heard = client.heard().utf8.count
    for _ in 0..<1_000 where heard < sent {
      client.tell([.output])
      heard += client.heard().utf8.count
    }
    #expect(heard == sent && !client.session.isClosed)
  }

  // MARK: Rates

  @Test func `a rate bounds what is read of each side in its first second`() throws {
    let rig = try Rig.passingTCP("proxy_upload_rate 4; proxy_download_rate 3;")
    let client = try TCPClient(rig)
    client.say("0123456789")
    let upstream = try rig.upstream
    upstream.open()
    #expect(upstream.sent == "0123")
    upstream.answer("abcdefgh")
    #expect(client.heard() == "abc" && !client.hasEnd)
    client.say("more")
    #expect(upstream.sent.isEmpty && client.session.tcp?.stream.receivedBytes == 4)
  }

  @Test func `a rate of 0, or none, is no limit`() throws {
    let rig = try Rig.stream(
      "map $remote_addr $r { default 0; } server { listen 127.0.0.1:1; proxy_pass 127.0.0.1:9; proxy_upload_rate $r; }")
    let client = try TCPClient(rig)
    let upstream = try rig.upstream
    upstream.open()
    client.say(String(repeating: "x", count: 70_000))
    #expect(upstream.sent.utf8.count == 70_000)
  }

  // MARK: Servers

  @Test(arguments: [("", 2), ("proxy_next_upstream off;", 1), ("proxy_next_upstream_tries 1;", 1)])
  func `the session ends with 502 if none can be reached`(line: String, tries: Int) throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.passingTCP(line, servers: 2, scene)
    let client = try TCPClient(rig)
    for _ in 0..<tries { try rig.upstream.refuse() }
    #expect(client.heard().isEmpty && client.hasEnd && rig.upstreams.count == tries)
    #expect(rig.accessLines(scene) == ["502"])
  }

  @Test func `a client that leaves before its upstream is there ends the session`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.passingTCP("", scene, log: "$status $bytes_received")
    let client = try TCPClient(rig)
    client.session.cut()
    #expect(try client.session.isClosed && rig.upstream.isClosed)
    #expect(rig.accessLines(scene) == ["200 0"])
  }

  @Test(arguments: [
    ("127.0.0.1:9", 200), ("g", 200), ("127.0.0.1", 500), ("h", 500), ("", 500), ("G", 200),
  ])
  func `a variable names an address with a port, or a group of stream`(value: String, status: Int) throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig(
      text: """
        events {} http { upstream h { server 127.0.0.1:8; } server { listen 127.0.0.1:2; return 204; } }
        stream { map $remote_addr $to { default "\(value)"; } upstream g { server 127.0.0.1:9; }
          log_format line $status; access_log \(scene.path("access.log")) line;
          error_log \(scene.path("error.log")) info; server { listen 127.0.0.1:1; proxy_pass $to; } }
        """)
    let client = try TCPClient(rig, listener: 1)
    #expect(rig.upstreams.count == (status == 200 ? 1 : 0))
    client.session.cut()
    #expect(rig.accessLines(scene) == ["\(status)"])
    #expect(
      scene.text("error.log").contains(value.isEmpty ? "no host in upstream" : "no port in upstream") == (status == 500)
    )
  }

  @Test func `the worker's end ends the session`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.passingTCP("", scene)
    let client = try TCPClient(rig)
    try rig.upstream.open()
    client.session.drain()
    #expect(!client.session.isClosed)
    client.session.cut()
    #expect(client.heard().isEmpty && client.hasEnd)
    #expect(try rig.upstream.isClosed)
    #expect(rig.accessLines(scene) == ["200"])
  }
}
