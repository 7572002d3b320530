import CLinux
import Glibc

/// The socket on which the service manager hears a service (NOTIFY_SOCKET, sd_notify(3)).
enum NotifySocket {
  /// Sends one datagram, and descriptors with it: at most as many as the kernel passes at a time.
  static func send(_ text: String, _ descriptors: [Int32] = []) -> Notification.Outcome {
    guard let name = getenv("NOTIFY_SOCKET").map({ String(cString: $0) }), !name.isEmpty else { return .nobodyListens }
    guard var address = address(name) else { return .failed(EAFNOSUPPORT) }
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return .failed(errno) }
    defer { close(descriptor) }
    let isConnected = withUnsafePointer(to: &address.name) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, address.length) == 0 }
    }
    guard isConnected else { return .failed(errno) }
    let bytes = Array(text.utf8)
    let sent =
      descriptors.isEmpty
      ? Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
      : linux_send_descriptors(descriptor, bytes, bytes.count, descriptors, Int32(clamping: descriptors.count))
    return sent < 0 ? .failed(errno) : .sent
  }

  /// Waits until the manager has closed the descriptor that it gets, which it does after all that was sent before.
  static func waitUntilRead(milliseconds: Int32) {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { return }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { close(ends[0]) }
    let outcome = send("BARRIER=1", [ends[1]])
    close(ends[1])
    guard outcome == .sent else { return }
    var end = pollfd(fd: ends[0], events: 0, revents: 0)
    _ = poll(&end, 1, milliseconds)
  }

  /// A path, or a name in the abstract namespace, which begins with `@`. nil: anything else; systemd uses that for virtual
  /// machines, not for services.
  private static func address(_ name: String) -> (name: sockaddr_un, length: socklen_t)? {
    var bytes = Array(name.utf8)
    guard bytes.count > 1, bytes[0] == UInt8(ascii: "/") || bytes[0] == UInt8(ascii: "@") else { return nil }
    // A path ends with a zero byte; an abstract name begins with one.
    if bytes[0] == UInt8(ascii: "@") { bytes[0] = 0 } else { bytes.append(0) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let fits = withUnsafeMutableBytes(of: &address.sun_path) { room in
      guard bytes.count <= room.count else { return false }
      room.copyBytes(from: bytes)
      return true
    }
    return fits ? (address, socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)) : nil
  }
}
