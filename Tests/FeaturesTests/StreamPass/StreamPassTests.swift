import ConfigurationSupport
@testable import Features
@testable import Forward
import TestSupport
import Testing
@testable import Traffic

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
    // As in nginx, the listener that passed it on has no line of it.
    #expect(rig.accessLines(scene) == ["200 -"])
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

  /// `stream`: servers that pass. The API is at unix:/run/api.sock.
  private func besideAPI(_ stream: String, api: String = "api write=on;") -> LoadedText {
    LoadedText(
      """
      stream { \(stream) }
      http { server { listen unix:/run/api.sock; location /api/ { \(api) } }
        server { listen unix:/run/other.sock; location /api/ { api; } } }
      """)
  }

  @Test(arguments: [
    "server { listen 81; pass unix:/run/api.sock; }",
    "server { listen 81; listen unix:/run/a.sock; pass unix:/run/api.sock; }",
    "server { listen systemd:a; pass unix:/run/api.sock; }",
    "server { listen 81; pass unix:/run/a.sock; } server { listen unix:/run/a.sock; pass unix:/run/api.sock; }",
    "server { listen 82; pass 127.0.0.1:81; } server { listen 127.0.0.1:81; pass unix:/run/api.sock; }",
  ])
  func `a way from TCP to an API that only its socket guards is refused`(stream: String) {
    let errors = besideAPI(stream).errors
    #expect(
      !errors.isEmpty && errors.allSatisfy { $0.contains("that only the socket unix:/run/api.sock guards") },
      "\(errors)")
  }

  @Test(arguments: [
    "server { listen unix:/run/a.sock; pass unix:/run/api.sock; }", "server { listen 81; pass unix:/run/other.sock; }",
    "map $remote_addr $to { default unix:/run/api.sock; } server { listen 81; pass $to; }",
    "server { listen unix:/run/a.sock; pass unix:/run/b.sock; } server { listen unix:/run/b.sock; pass unix:/run/a.sock; }",
  ])
  func `a way from a socket, or to no such API, is not`(stream: String) { #expect(besideAPI(stream).errors.isEmpty) }

  @Test func `an API with rules of its own may be passed to`() {
    let rules = "auth_basic x; auth_basic_user_file u; api write=on;"
    #expect(besideAPI("server { listen 81; pass unix:/run/api.sock; }", api: rules).errors.isEmpty)
    #expect(
      besideAPI("server { listen 81; pass unix:/run/api.sock; }", api: "allow 10.0.0.1; deny all; api write=on;").errors
        .isEmpty)
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
