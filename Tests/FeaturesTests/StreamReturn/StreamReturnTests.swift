@testable import Features
@testable import Forward
import Glibc
import TestSupport
import Testing
@testable import Traffic
import Transport

/// `return` of `stream`.
@Suite struct `A text that ends the session` {
  @Test func `it is sent with its variables, and the session ends`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.stream(
      "server { listen 127.0.0.1:1; return \"hello $remote_addr:$remote_port\\n\"; }", scene,
      log: "$status $bytes_sent $bytes_received")
    let client = try TCPClient(rig)
    #expect(client.heard() == "hello 192.0.2.1:4711\n" && client.hasEnd && client.session.isClosed)
    #expect(rig.accessLines(scene) == ["200 21 0"])
  }

  @Test func `it waits for a client that takes its bytes slowly`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let text = String(repeating: "0123456789", count: 900)
    let rig = try Rig.stream(
      "map $remote_addr $all { default \(text); } server { listen 127.0.0.1:1; return \"\(copies("$all", 60))\"; }",
      scene,
      log: "$status $bytes_sent")
    let client = try TCPClient(rig)
    var heard = client.heard()
    #expect(!client.session.isClosed && heard.utf8.count < 540_000)
    for _ in 0..<100 where !client.session.isClosed {
      client.tell([.output])
      heard += client.heard()
    }
    heard += client.heard()
    #expect(heard.utf8.count == 540_000 && client.hasEnd)
    #expect(rig.accessLines(scene) == ["200 540000"])
  }

  @Test func `a client that takes nothing is given up`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let text = String(repeating: "0123456789", count: 900)
    let rig = try Rig.stream(
      "map $remote_addr $all { default \(text); } server { listen 127.0.0.1:1; return \"\(copies("$all", 60))\"; }",
      scene)
    let client = try TCPClient(rig)
    client.session.tcp?.stream.deadlinePassed()
    #expect(client.session.isClosed)
    #expect(rig.accessLines(scene) == ["200"])
  }

  private func copies(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }
}
