@testable import Features
@testable import Forward
import Foundation
import Glibc
import TestSupport
@testable import Traffic
import Transport

/// A client of a rig's `stream`: its connection is one of a pair of sockets, whose events come by the test's own calls.
final class TCPClient {
  let session: ClientSession
  private let rig: Rig
  private let descriptor: Int32
  /// The proxy has ended its side.
  private(set) var hasEnd = false

  /// Connects, and runs the session until it waits.
  init(_ rig: Rig, listener: Int = 0, from client: SocketAddress = Rig.client) throws {
    self.rig = rig
    (session, descriptor) = try rig.connect(listener: listener, from: client)
    session.begin()
    rig.loop.cork.flush()
  }

  deinit { close(descriptor) }

  var running: StreamSession? { session.tcp?.stream.session }

  func say(_ bytes: [UInt8]) {
    _ = send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    tell([.input])
  }

  func say(_ text: String) { say(Array(text.utf8)) }

  /// Ends the client's side.
  func end() {
    shutdown(descriptor, Int32(SHUT_WR))
    tell([.input, .peerEnd])
  }

  /// Has the proxy see what the system would tell it.
  func tell(_ readiness: Readiness) {
    session.transport.ready(readiness)
    rig.loop.cork.flush()
  }

  /// What has come since the last call.
  func heard() -> String {
    var text = ""
    var room = [UInt8](repeating: 0, count: 65_536)
    while !hasEnd {
      let count = recv(descriptor, &room, room.count, Int32(MSG_DONTWAIT))
      // A socket that closes with unread bytes resets the connection.
      if count == 0 || count < 0 && errno == ECONNRESET { hasEnd = true }
      if count <= 0 { break }
      text += String(decoding: room.prefix(count), as: UTF8.self)
    }
    return text
  }
}

extension Rig {
  /// Serves `stream` with these lines, and writes a line of the access log for each session: `format` of variables.
  static func stream(_ lines: String, _ scene: Scene, log format: String = "$status") throws -> Rig {
    try Rig(
      text: """
        events {}
        stream { log_format line '\(format)'; access_log \(scene.path("access.log")) line; error_log \(scene.path("error.log")) info;
        \(lines) }
        """)
  }

  /// Serves `stream` with these lines, and logs nothing.
  static func stream(_ lines: String) throws -> Rig { try Rig(text: "events {} stream { \(lines) }") }

  /// A server whose connections all go to a group.
  static func passingTCP(_ directives: String = "", servers: Int = 1, _ scene: Scene? = nil, log: String = "$status")
    throws -> Rig
  {
    let group = (0..<servers).map { "server 127.0.0.1:\(9 + $0);" }.joined()
    let lines = "upstream u { \(group) } server { listen 127.0.0.1:1; proxy_pass u; \(directives) }"
    return try scene.map { try stream(lines, $0, log: log) } ?? stream(lines)
  }

  /// The lines of the access log.
  func accessLines(_ scene: Scene) -> [String] {
    flushLogs()
    return scene.text("access.log").split(separator: "\n").map(String.init)
  }
}
