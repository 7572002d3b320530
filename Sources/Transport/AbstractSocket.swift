import CLinux
import Glibc

/// Unix sockets with a name of the kernel's instead of a file (unix(7), "abstract"). They need no folder that can be
/// written to, and the name is free again once the last descriptor is closed. Names belong to the network namespace.
///
/// Anybody in the namespace may bind a name that is free, and connect: both ends check `peer`.
package enum AbstractSocket {
  /// The process at the other end: of a client's socket the one that called listen(2), of a server's the one that
  /// called connect(2).
  package struct Peer: Sendable, Hashable {
    package let process: Int32
    package let user: UInt32
  }

  /// The longest name: sun_path without the zero byte in front.
  package static let longestName = SocketAddress.longestUnixPath

  package static func listen(on name: String, backlog: Int32) throws(SocketError) -> Int32 {
    let descriptor = linux_socket_stream(AF_UNIX)
    guard descriptor >= 0 else { throw SocketError("socket", errno) }
    if withAddress(name, { bind(descriptor, $0, $1) }) != 0 { throw closing(descriptor, "bind") }
    if Glibc.listen(descriptor, backlog) != 0 { throw closing(descriptor, "listen") }
    return descriptor
  }

  /// EAGAIN: the queue of the listening socket is full. Unlike TCP, the connection then does not go on by itself.
  package static func connect(to name: String) throws(SocketError) -> Int32 {
    let descriptor = linux_socket_stream(AF_UNIX)
    guard descriptor >= 0 else { throw SocketError("socket", errno) }
    if withAddress(name, { Glibc.connect(descriptor, $0, $1) }) != 0 { throw closing(descriptor, "connect") }
    return descriptor
  }

  /// Returns nil if the descriptor is not a connected unix socket.
  package static func peer(of descriptor: Int32) -> Peer? {
    var process: Int32 = 0
    var user: UInt32 = 0
    return linux_peer_of(descriptor, &process, &user) == 0 ? Peer(process: process, user: user) : nil
  }

  private static func closing(_ descriptor: Int32, _ call: String) -> SocketError {
    let code = errno
    close(descriptor)
    return SocketError(call, code)
  }

  private static func withAddress<T>(_ name: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> T) -> T {
    var storage = sockaddr_storage()
    let bytes = Array(name.utf8.prefix(longestName))
    withUnsafeMutableBytes(of: &storage) {
      $0.storeBytes(of: sa_family_t(AF_UNIX), as: sa_family_t.self)
      // The byte 0 in front makes it a name of the kernel's.
      for (index, byte) in bytes.enumerated() { $0[3 + index] = byte }
    }
    let length = socklen_t(clamping: 3 + bytes.count)
    return withUnsafePointer(to: &storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
    }
  }
}
