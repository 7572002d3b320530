import ConfigurationSupport
@testable import Proxy
import TestSupport
import Testing

/// `pass`: a connection goes to another listener.
@Suite struct `A connection passed on` {
  @Test func `the other listener serves it, and reads what was looked at`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.stream(
      """
      server { listen 127.0.0.1:1; ssl_preread on; pass 127.0.0.1:2; }
      server { listen 127.0.0.1:2; ssl_preread on; return "second $ssl_preread_server_name\\n"; }
      """, scene, log: "$status $server_port")
    let client = try TCPClient(rig)
    client.say(PrereadHello(name: "a.test").bytes)
    #expect(client.heard() == "second a.test\n" && client.hasEnd && client.session.isClosed)
    #expect(rig.accessLines(scene).count == 2)
  }

  @Test(arguments: [("127.0.0.1:3", "c"), ("[::1]:4", "d"), ("unix:/run/x.sock", "e")])
  func `an address on every address of its family serves, too`(address: String, answer: String) throws {
    let rig = try Rig.stream(
      """
      server { listen 127.0.0.1:1; pass \(address); } server { listen 3; return c; }
      server { listen [::]:4; return d; } server { listen unix:/run/x.sock; return e; }
      """)
    #expect(try TCPClient(rig).heard() == answer)
  }

  @Test func `an address that nobody listens on ends the session with 500`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.stream(
      "map $remote_addr $to { default 127.0.0.1:7; } server { listen 127.0.0.1:1; pass $to; }", scene)
    let client = try TCPClient(rig)
    #expect(client.heard().isEmpty && client.hasEnd)
    #expect(rig.accessLines(scene) == ["500"])
    #expect(scene.text("error.log").contains("no listener has the address \"127.0.0.1:7\" in \"pass\""))
  }

  @Test func `a listener of http serves it as well`() throws {
    let rig = try Rig(
      text: """
        events {} http { server { listen 127.0.0.1:2; return 200 http; } }
        stream { server { listen 127.0.0.1:1; pass 127.0.0.1:2; } }
        """)
    let client = try TCPClient(rig, listener: 1)
    #expect(!client.hasEnd && client.session.isClosed && rig.live.clients == 1)
  }

  @Test(arguments: ["a:1", "127.0.0.1", "127.0.0.1:1-2", "0", "http://127.0.0.1:1"])
  func `what is no address of a listener is refused`(text: String) {
    let errors = LoadedText.streamServer("pass \(text);").errors
    #expect(
      errors == [
        "2:6 invalid address \"\(text)\" in \"pass\" directive"
          + " | an address of another listen: 127.0.0.1:8443, [::1]:8443 or unix:PATH"
      ])
  }
}
