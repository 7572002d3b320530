import CLinux
import Glibc

/// A copy of this process that does one thing for it, at the other end of a channel. It ends with this process.
struct HelperProcess: Sendable {
  let channel: Int32
  private let identifier: pid_t

  /// Call this while the process has one thread. nil: the process can't be copied. `serve`: what the copy does with its end
  /// of the channel.
  static func fork(_ serve: (Int32) -> Never) -> HelperProcess? {
    var ends: [Int32] = [-1, -1]
    let kind = Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { return nil }
    let process = linux_fork()
    guard process != 0 else {
      // Otherwise the copy would hold both ends, and never see this process's end.
      Glibc.close(ends[0])
      serve(ends[1])
    }
    Glibc.close(ends[1])
    guard process > 0 else {
      Glibc.close(ends[0])
      return nil
    }
    return HelperProcess(channel: ends[0], identifier: process)
  }

  /// Whether the other process has ended, without waiting for it. Reaps it.
  var hasEnded: Bool {
    var status: Int32 = 0
    return waitpid(identifier, &status, WNOHANG) != 0
  }

  /// Lets the other process end, and waits for that, for so many seconds at most: systemd would kill a process that is left
  /// when this one has ended, and say so in the journal.
  func close(waiting seconds: Int = 1) {
    shutdown(channel, Int32(SHUT_WR))
    for _ in 0..<seconds * 200 {
      if hasEnded { return }
      usleep(5000)
    }
  }
}
