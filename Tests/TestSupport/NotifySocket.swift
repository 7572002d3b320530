import Glibc
import Synchronization

/// What systemd listens on: a NOTIFY_SOCKET in the scene's folder.
package final class NotifySocket: Sendable {
  package let path: String
  private let descriptor: Int32
  private let heard = Mutex<[String]>([])

  package init(_ scene: Scene) throws {
    path = scene.path("notify")
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard LoopbackAddress.withUnix(path: path, { [descriptor] in bind(descriptor, $0, $1) }) == 0 else {
      throw WireError.system("bind", errno)
    }
    scene.atEnd { [descriptor] in close(descriptor) }
    scene.onFailure(show: "NOTIFY_SOCKET") { self.datagrams.joined(separator: "\n--\n") }
  }

  package var environment: [String: String] { ["NOTIFY_SOCKET": path] }

  /// Every datagram that has come so far.
  package var datagrams: [String] {
    heard.withLock { heard in
      var room = [UInt8](repeating: 0, count: 8192)
      while true {
        let count = recv(descriptor, &room, room.count, Int32(truncatingIfNeeded: MSG_DONTWAIT))
        guard count >= 0 else { return heard }
        heard.append(String(decoding: room.prefix(count), as: UTF8.self))
      }
    }
  }

  /// Waits for a datagram with this line, after the first `skipped` datagrams, and returns its lines.
  @discardableResult
  package func heard(_ line: String, after skipped: Int = 0) async throws -> [String] {
    try await waiting(for: "NOTIFY_SOCKET to hear \(line)") {
      datagrams.dropFirst(skipped).map { $0.split(separator: "\n").map(String.init) }.first {
        $0.contains { $0.hasPrefix(line) }
      }
    }
  }
}
