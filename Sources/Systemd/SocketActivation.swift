import CSystemd
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
    var names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
    let count = sd_listen_fds_with_names(1, &names)
    defer { release(names, count) }
    guard count >= 0 else {
      throw SocketActivationError(
        message: "LISTEN_FDS, LISTEN_PID or LISTEN_FDNAMES is malformed: \(String(cString: strerror(-count))): "
          + "they are for systemd to set")
    }
    var sockets: [InheritedSocket] = []
    for index in 0..<count {
      let name = names?[Int(index)].map { String(cString: $0) } ?? ""
      sockets.append(try adopt(name: name, descriptor: SD_LISTEN_FDS_START + index))
    }
    return sockets
  }

  /// Checks that a descriptor is a listening stream socket, and sets its flags.
  package static func adopt(name: String, descriptor: Int32) throws(SocketActivationError) -> InheritedSocket {
    guard sd_is_socket(descriptor, AF_UNSPEC, Int32(SOCK_STREAM.rawValue), 1) > 0 else {
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

  private static func release(_ names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, _ count: Int32) {
    guard let names else { return }
    for index in 0..<max(0, Int(count)) { free(names[index]) }
    free(names)
  }
}
