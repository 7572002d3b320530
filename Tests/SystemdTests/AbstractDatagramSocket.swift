import Glibc

/// A datagram socket in the abstract namespace: leaves no file behind.
final class AbstractDatagramSocket: Sendable {
  struct Failure: Error { var code: Int32 }

  let descriptor: Int32

  init(name: String) throws {
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let text = [0] + Array(name.utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: text) }
    let length = socklen_t(MemoryLayout<sa_family_t>.size + text.count)
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
    }
    guard bound == 0 else { throw Failure(code: errno) }
  }

  deinit { close(descriptor) }

  /// What has already arrived, never waits.
  func receive() -> String? {
    var bytes = [UInt8](repeating: 0, count: 4_096)
    let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
    return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
  }
}
