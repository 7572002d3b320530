@testable import Features
@testable import Forward
import Foundation
import TestSupport
import Testing
@testable import Traffic

/// The variables of `stream`, which have no request to be about.
@Suite struct `Variables of stream` {
  private static let names =
    Features.all.directives.variables.all(of: .stream) + [
      "proxy_protocol_tlv_alpn", "proxy_protocol_tlv_0xea", "named",
    ]

  /// Bytes that a name of ALPN can have.
  private static let protocols: [[UInt8]] = [
    Array(#"","status":"forged"#.utf8), Array("a\\".utf8), [0x00, 0x0A, 0x0D, 0x22, 0x5C, 0xFF, 0xC3], [0xE2, 0x82],
  ]

  @Test func `a line in JSON is one object with each of them, whatever bytes a ClientHello has`() throws {
    #expect(Self.names.count > 60)
    let scene = try Scene()
    defer { scene.end() }
    let members = Self.names.map { "\"\($0)\":\"${\($0)}\"" }.joined(separator: ",")
    let rig = try Rig(
      text: """
        events {}
        stream { log_format all escape=json '{\(members)}'; access_log \(scene.path("access.log")) all; ssl_preread on;
          server { listen 127.0.0.1:1; server_name ~^(?<named>.*)[.]test$; proxy_pass 127.0.0.1:9; } }
        """)
    let hellos = Self.protocols.map { PrereadHello(name: "a.test", protocols: [$0]).bytes }
    for hello in hellos + [PrereadHello().bytes, Array("SSH-2.0-x\r\n".utf8)] {
      let client = try TCPClient(rig)
      client.say(hello)
      try rig.upstream.open()
      client.session.cut()
    }
    rig.flushLogs()
    let lines = scene.bytes("access.log").split(separator: 0x0A)
    #expect(lines.count == hellos.count + 2)
    for (index, line) in lines.enumerated() {
      let object = try? JSONSerialization.jsonObject(with: Data(line)) as? [String: String]
      #expect(object.map { Set($0.keys) } == Set(Self.names), "\(String(decoding: line, as: UTF8.self))")
      #expect(object?["status"] == "200" && object?["protocol"] == "TCP" && object?["upstream_addr"] == "127.0.0.1:9")
      #expect(object?["named"] == (index < hellos.count ? "a" : ""))
    }
  }

  @Test(arguments: [
    ("a.test", "a.test"), ("other.test", "a.test"), ("x.b.test", "b.test"), ("c.test", "*.c.test"),
    ("d1.test", #"~^d\d\.test$"#), ("A.test", "a.test"),
  ])
  func `server_name is the first name of the server block that the client's name selects`(
    name: String, expected: String
  ) throws {
    let rig = try Rig.stream(
      #"""
      ssl_preread on;
      server { listen 127.0.0.1:1; server_name A.test z.test; return "$server_name\n"; }
      server { listen 127.0.0.1:1; server_name .b.test; return "$server_name\n"; }
      server { listen 127.0.0.1:1; server_name *.c.test c.test; return "$server_name\n"; }
      server { listen 127.0.0.1:1; server_name ~^d\d\.test$; return "$server_name\n"; }
      """#)
    let client = try TCPClient(rig)
    client.say(PrereadHello(name: name).bytes)
    #expect(client.heard() == "\(expected)\n" && client.hasEnd)
  }

  @Test func `server_name is empty in a server block without a name`() throws {
    let rig = try Rig.stream("server { listen 127.0.0.1:1; return \"[$server_name]\"; }")
    #expect(try TCPClient(rig).heard() == "[]")
  }

  @Test func `each is of http, or of stream alone`() {
    for name in Features.all.directives.variables.all(of: .stream) {
      guard case .known = Features.all.directives.variables.look(up: name, of: .stream) else {
        Issue.record("\(name)")
        continue
      }
    }
    for name in ["status", "remote_addr", "ssl_client_verdict", "limit_conn_status"] {
      for kind in [TrafficKind.http, .stream] {
        guard case .known = Features.all.directives.variables.look(up: name, of: kind) else {
          Issue.record("\(name)")
          continue
        }
      }
    }
    #expect(
      Features.all.directives.variables.all(of: .stream).allSatisfy {
        !$0.hasPrefix("request") && !$0.hasPrefix("http")
      })
  }
}
