@testable import Features
@testable import Forward
import Foundation
import Glibc
import TestSupport
import Testing
@testable import Traffic
import Transport

/// What decides on a client of `stream` before its bytes go anywhere.
@Suite struct `Rules of stream` {
  @Test func `an address that is denied reaches no upstream`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.passingTCP("deny 192.0.2.1; allow all;", scene, log: "$status $remote_addr")
    let denied = try TCPClient(rig)
    #expect(denied.heard().isEmpty && denied.hasEnd && rig.upstreams.isEmpty)
    let other = try TCPClient(rig, from: .ipv4(address: 0xC000_0202, port: 1))
    #expect(!other.hasEnd && rig.upstreams.count == 1)
    other.session.cut()
    #expect(rig.accessLines(scene) == ["403 192.0.2.1", "200 192.0.2.2"])
    #expect(scene.text("error.log").contains("access forbidden by rule"))
  }

  @Test func `a limit counts sessions until they end`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.stream(
      """
      limit_conn_zone $binary_remote_addr zone=z:1m;
      server { listen 127.0.0.1:1; limit_conn z 1; proxy_pass 127.0.0.1:9; }
      """, scene, log: "$status $limit_conn_status")
    let first = try TCPClient(rig)
    let second = try TCPClient(rig)
    #expect(second.heard().isEmpty && second.hasEnd && !first.hasEnd)
    first.session.cut()
    let third = try TCPClient(rig)
    #expect(!third.hasEnd && rig.upstreams.count == 2)
    third.session.cut()
    #expect(rig.accessLines(scene) == ["503 REJECTED", "200 PASSED", "200 PASSED"])
  }

  @Test func `an address that the PROXY header names counts from trusted peers only`() throws {
    for (from, shown) in [("192.0.2.0/24", "198.51.100.7 192.0.2.1"), ("10.0.0.0/8", "192.0.2.1 192.0.2.1")] {
      let scene = try Scene()
      defer { scene.end() }
      let rig = try Rig.stream(
        """
        set_real_ip_from \(from);
        server { listen 127.0.0.1:1 proxy_protocol; return "$proxy_protocol_addr\\n"; }
        """, scene, log: "$remote_addr $realip_remote_addr")
      let client = try TCPClient(rig)
      #expect(client.heard().isEmpty && !client.hasEnd)
      client.say("PROXY TCP4 198.51.100.7 203.0.113.9 1234 443\r\n")
      #expect(client.heard() == "198.51.100.7\n" && client.hasEnd)
      #expect(rig.accessLines(scene) == [shown])
    }
  }

  @Test func `rules judge the client that the PROXY header names`() throws {
    let rig = try Rig.stream(
      "set_real_ip_from 192.0.2.1; server { listen 127.0.0.1:1 proxy_protocol; deny 198.51.100.7; return in; }")
    for (address, answer) in [("198.51.100.7", ""), ("198.51.100.8", "in")] {
      let client = try TCPClient(rig)
      client.say("PROXY TCP4 \(address) 203.0.113.9 1234 443\r\n")
      #expect(client.heard() == answer && client.hasEnd)
    }
  }

  @Test(arguments: ["GET / HTTP/1.1\r\n\r\n", "PROXY TCP4 x\r\n"])
  func `another beginning than a PROXY header ends the session with 400`(text: String) throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.stream("server { listen 127.0.0.1:1 proxy_protocol; return in; }", scene)
    let client = try TCPClient(rig)
    client.say(text)
    #expect(client.heard().isEmpty && client.hasEnd)
    #expect(rig.accessLines(scene) == ["400"])
  }

  @Test func `an error log of the server gets its lines`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig.stream(
      "server { listen 127.0.0.1:1; error_log \(scene.path("own.log")) error; deny all; return in; }", scene)
    _ = try TCPClient(rig)
    #expect(scene.text("own.log").contains("access forbidden by rule, client: 192.0.2.1, server: "))
    #expect(scene.text("error.log").isEmpty)
  }

}
