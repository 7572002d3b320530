import ConfigurationSupport
@testable import Features
@testable import Forward
import TestSupport
import Testing
@testable import Traffic
import Transport

/// `ssl_preread`: the server block by a name in bytes that go on unchanged.
@Suite struct `A ClientHello selects the server` {
  private static let servers = """
    ssl_preread on;
    server { listen 127.0.0.1:1; server_name a.test; proxy_pass 127.0.0.1:9; }
    server { listen 127.0.0.1:1; server_name *.b.test; deny 192.0.2.1; proxy_pass 127.0.0.1:9; }
    server { listen 127.0.0.1:1 default_server; return "default $ssl_preread_server_name\\n"; }
    server { listen 127.0.0.1:1; server_name c.test; return "$ssl_preread_protocol $ssl_preread_alpn_protocols\\n"; }
    """

  private func rig(_ scene: Scene, _ lines: String = servers) throws -> Rig {
    try Rig.stream(lines, scene, log: "$status $bytes_received $ssl_preread_server_name")
  }

  @Test func `the bytes go to the upstream of the name, all of them`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try rig(scene)
    let client = try TCPClient(rig)
    let hello = PrereadHello(name: "A.test.").bytes
    client.say(Array(hello.prefix(9)))
    #expect(rig.upstreams.isEmpty)
    client.say(Array(hello.dropFirst(9)) + Array("more".utf8))
    try rig.upstream.open()
    #expect(try rig.upstream.bytesSent == hello + Array("more".utf8))
    client.session.cut()
    #expect(rig.accessLines(scene) == ["200 \(hello.count + 4) a.test"])
  }

  @Test func `the rules of the server that is found apply`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try rig(scene)
    let client = try TCPClient(rig)
    client.say(PrereadHello(name: "x.b.test").bytes)
    #expect(client.heard().isEmpty && client.hasEnd && rig.upstreams.isEmpty)
    #expect(rig.accessLines(scene) == ["403 0 x.b.test"])
  }

  @Test func `a server that the listener's default would refuse is not reached`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try rig(
      scene,
      "ssl_preread on; server { listen 127.0.0.1:1; deny all; return a; }"
        + " server { listen 127.0.0.1:1; server_name b; return b; }")
    let client = try TCPClient(rig)
    client.say(PrereadHello(name: "b").bytes)
    #expect(client.heard().isEmpty && client.hasEnd)
  }

  @Test func `other names, no name and no TLS are the default's`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try rig(scene)
    for (bytes, answer) in [
      (PrereadHello(name: "d.test").bytes, "default d.test\n"), (PrereadHello().bytes, "default \n"),
      (Array("SSH-2.0-x\r\n".utf8), "default \n"), ([0], "default \n"),
    ] {
      let client = try TCPClient(rig)
      client.say(bytes)
      #expect(client.heard() == answer && client.hasEnd)
    }
  }

  @Test func `version and protocols are known`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let client = try TCPClient(try rig(scene))
    client.say(PrereadHello(name: "c.test", protocols: ["h2", "x"].map { Array($0.utf8) }).bytes)
    #expect(client.heard() == "TLSv1.3 h2,x\n")
  }

  @Test func `a hello that doesn't fit ends the session with 400, and one that breaks off with 200`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try rig(scene, "ssl_preread on; preread_buffer_size 64; server { listen 127.0.0.1:1; return a; }")
    let hello = PrereadHello(name: "a.test", protocols: [Array("http/1.1".utf8)]).bytes
    #expect(hello.count > 64)
    let full = try TCPClient(rig)
    full.say(hello)
    #expect(full.heard().isEmpty && full.hasEnd)
    let short = try TCPClient(rig)
    short.say(Array(hello.prefix(20)))
    #expect(!short.hasEnd)
    short.end()
    #expect(short.heard().isEmpty && short.hasEnd)
    #expect(rig.accessLines(scene) == ["400 0 -", "200 0 -"])
    #expect(scene.text("error.log").contains("preread buffer full while prereading client data"))
    #expect(scene.text("error.log").contains("client disconnected while prereading client data"))
  }

  @Test func `what the bytes so far say`() {
    func kind(_ bytes: [UInt8], isFull: Bool = false, hasEnded: Bool = false) -> String {
      switch bytes.withUnsafeBytes({ PrereadFacts.read($0, isFull: isFull, hasEnded: hasEnded) }) {
      case .incomplete: "incomplete"
      case .ended: "ended"
      case .full: "full"
      case .known(let facts):
        "known \(String(decoding: facts.serverName, as: UTF8.self)) \(facts.protocols.count) \(facts.version)"
      }
    }
    let hello = PrereadHello(name: "a.test", protocols: [[1], [2]]).bytes
    #expect(kind(hello) == "known a.test 2 TLSv1.3")
    // A whole hello counts, even if nothing else would fit or come.
    #expect(kind(hello, isFull: true, hasEnded: true) == "known a.test 2 TLSv1.3")
    #expect(kind(Array("HELO".utf8), isFull: true) == "known  0 ")
    let part = Array(hello.dropLast())
    #expect(kind(part) == "incomplete")
    #expect(kind(part, hasEnded: true) == "ended")
    #expect(kind(part, isFull: true) == "full")
    #expect(kind(part, isFull: true, hasEnded: true) == "full")
    #expect(kind([]) == "incomplete")
  }

  @Test(arguments: [("0", false), ("1", true), ("256k", true), ("262145", false), ("1m", false)])
  func `the buffer has bounds`(size: String, isTaken: Bool) {
    let errors = LoadedText.streamServer("return a; preread_buffer_size \(size);").errors
    #expect(
      errors
        == (isTaken
          ? [] : ["2:31 invalid value \"\(size)\" in \"preread_buffer_size\" directive | from 1 to 256k"]))
  }
}
