import CLinux
import Glibc
import Synchronization

/// Ports for parts that can't choose one themselves.
///
/// A claim is the name of an abstract unix socket, which the kernel gives to one process of the machine at a time and takes
/// back at its end: two runs of the tests, side by side, never claim the same port.
enum PortClaims {
  private static let claimed = Mutex<[UInt16: Int32]>([:])

  struct NoneFree: Error {}

  static func claim() throws -> UInt16 { try claim(count: 1) }

  /// The first of so many ports in a row.
  static func claim(count: UInt16) throws -> UInt16 {
    for _ in 0..<500 {
      let first = UInt16.random(in: 12_000...29_999 - count)
      let ports = first..<first + count
      let taken = ports.prefix { take($0) }
      if taken.count == ports.count, ports.allSatisfy({ isFree($0) }) { return first }
      for port in taken { release(port) }
    }
    throw NoneFree()
  }

  static func release(_ port: UInt16) {
    if let claim = claimed.withLock({ $0.removeValue(forKey: port) }) { close(claim) }
  }

  private static func take(_ port: UInt16) -> Bool {
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return false }
    guard LoopbackAddress.withUnix(path: "\0sallyport-test-port-\(port)", { bind(descriptor, $0, $1) }) == 0 else {
      close(descriptor)
      return false
    }
    claimed.withLock { $0[port] = descriptor }
    return true
  }

  /// Whether nobody listens: a bind without SO_REUSEADDR and SO_REUSEPORT succeeds on the wildcard address.
  private static func isFree(_ port: UInt16) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    return LoopbackAddress.withIPv4(port: port, any: true) {
      bind(descriptor, $0, $1) == 0 && listen(descriptor, 1) == 0
    }
  }
}

enum LoopbackAddress {
  static func withIPv4<R>(port: UInt16, any: Bool = false, _ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = (any ? INADDR_ANY : INADDR_LOOPBACK).bigEndian
    return withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
    }
  }

  static func withUnix<R>(path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { room in
      room.copyBytes(from: Array(path.utf8).prefix(room.count - 1))
    }
    return withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
    }
  }
}
