import CLinux
import Glibc

/// A listening socket that systemd made and passed to this process.
package struct InheritedSocket: Sendable, Hashable {
  /// FileDescriptorName=, which `listen systemd:NAME` refers to. Several sockets may share a name.
  package var name: String
  /// This process owns it now: non-blocking, closed on exec.
  package var descriptor: Int32
}

/// Why inherited sockets can't be used.
package struct SocketActivationError: Error, Sendable, Hashable, CustomStringConvertible {
  package var message: String
  package var description: String { message }
  package init(message: String) { self.message = message }
}

/// Socket activation (sd_listen_fds(3)).
package enum SocketActivation {
  /// Returns the sockets that systemd passed to this process, in systemd's order; may be empty.
  ///
  /// Call it once, before other threads exist. It removes LISTEN_* from the environment, so that no child process takes
  /// the sockets for its own.
  package static func inherit() throws(SocketActivationError) -> [InheritedSocket] {
    defer { for name in ["LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES"] { unsetenv(name) } }
    return try passed().map { name, descriptor throws(SocketActivationError) in
      try adopt(name: name, descriptor: descriptor)
    }
  }

  /// The first descriptor that systemd passes.
  private static let first: Int32 = 3

  /// The names and descriptors that the environment tells of; none where it tells of another process.
  private static func passed() throws(SocketActivationError) -> [(name: String, descriptor: Int32)] {
    switch ServiceEnvironment.number("LISTEN_PID") {
    case .absent: return []
    case .malformed: throw malformed("LISTEN_PID")
    case .number(let process): guard process == UInt64(clamping: getpid()) else { return [] }
    }
    let count: Int32
    switch ServiceEnvironment.number("LISTEN_FDS") {
    case .absent: return []
    case .number(let number) where (1...UInt64(Int32.max - first)).contains(number): count = Int32(clamping: number)
    case .number, .malformed: throw malformed("LISTEN_FDS")
    }
    let names = ServiceEnvironment.text("LISTEN_FDNAMES").map {
      $0.split(separator: ":", omittingEmptySubsequences: false)
    }
    if let names, names.count != Int(count) { throw malformed("LISTEN_FDNAMES") }
    for descriptor in first..<first + count where fcntl(descriptor, F_SETFD, FD_CLOEXEC) < 0 {
      throw SocketActivationError(
        message: "LISTEN_FDS=\(count) tells of descriptor \(descriptor), which is not open: it is for systemd to set")
    }
    return (0..<count).map { index in (names.map { String($0[Int(index)]) } ?? "unknown", first + index) }
  }

  private static func malformed(_ name: String) -> SocketActivationError {
    SocketActivationError(
      message: "LISTEN_FDS, LISTEN_PID or LISTEN_FDNAMES is malformed: \(name) has another form than systemd gives it, "
        + "and they are for systemd to set")
  }

  /// Checks that a descriptor is a listening stream socket, and sets its flags.
  package static func adopt(name: String, descriptor: Int32) throws(SocketActivationError) -> InheritedSocket {
    guard option(SO_TYPE, descriptor) == Int32(SOCK_STREAM.rawValue), option(SO_ACCEPTCONN, descriptor) == 1 else {
      throw SocketActivationError(
        message: "descriptor \(descriptor) (\"\(name)\"), handed over by systemd, is no listening stream socket: "
          + "use ListenStream= and Accept=no in the socket unit")
    }
    let status = fcntl(descriptor, F_GETFL)
    guard status >= 0, fcntl(descriptor, F_SETFL, status | O_NONBLOCK) >= 0,
      fcntl(descriptor, F_SETFD, FD_CLOEXEC) >= 0
    else {
      throw SocketActivationError(
        message: "can't set the flags of descriptor \(descriptor) (\"\(name)\"): \(String(cString: strerror(errno)))")
    }
    return InheritedSocket(name: name, descriptor: descriptor)
  }

  /// An option of a socket; nil for what is no socket.
  private static func option(_ name: Int32, _ descriptor: Int32) -> Int32? {
    var value: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    return getsockopt(descriptor, SOL_SOCKET, name, &value, &length) == 0 ? value : nil
  }
}
