import CLinux
import Glibc

/// A listening socket on which nobody accepts: the system takes connections, as many as there is room for.
package final class QuietListener: Sendable {
  package let port: UInt16

  /// `room`: 0 has one place.
  package init(_ scene: Scene, room: Int32 = 4096) throws {
    let listener = Self.socket()
    guard LoopbackAddress.withIPv4(port: 0, { bind(listener, $0, $1) }) == 0, listen(listener, room) == 0 else {
      throw WireError.system("listen", errno)
    }
    var address = sockaddr_in()
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    _ = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(listener, $0, &size) }
    }
    port = UInt16(bigEndian: address.sin_port)
    scene.atEnd { close(listener) }
  }

  /// One in which no further connection fits, so that its system answers no SYN.
  package static func full(_ scene: Scene) throws -> QuietListener {
    let quiet = try QuietListener(scene, room: 0)
    for _ in 0..<4 {
      let descriptor = socket()
      _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
      _ = LoopbackAddress.withIPv4(port: quiet.port) { connect(descriptor, $0, $1) }
      scene.atEnd { close(descriptor) }
    }
    return quiet
  }

  private static func socket() -> Int32 {
    Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
  }
}
