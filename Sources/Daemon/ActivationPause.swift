import CLinux
import Glibc
import Systemd

/// A start that is refused, although a socket unit has a client for it.
///
/// The client stays in the socket's queue, so systemd starts the service again at once. After 20 starts in 2 seconds, it
/// would give the socket unit up (`trigger-limit-hit`), and then no start of the service succeeds, also of one that is
/// mended. So such a process waits before it ends.
struct ActivationPause: Sendable {
  /// Above the interval of systemd's limit.
  private static let seconds = 3
  private static let firstDescriptor: Int32 = 3

  /// The sockets of socket units, without those of systemd's store.
  let descriptors: [Int32]

  /// Call this before the sockets are inherited, which removes their names from the environment.
  init() {
    func value(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
    let isOurs = value("LISTEN_PID") == "\(getpid())"
    self.init(
      count: isOurs ? value("LISTEN_FDS").flatMap { Int32($0) } ?? 0 : 0,
      names: (value("LISTEN_FDNAMES") ?? "").split(separator: ":", omittingEmptySubsequences: false).map(String.init))
  }

  /// `names`: by descriptor; those that are missing are of socket units.
  init(count: Int32, names: [String]) {
    self.init(
      at: (0..<max(0, min(count, 4096))).compactMap { index in
        let name = names.indices.contains(Int(index)) ? names[Int(index)] : ""
        return KeptSocket.isName(name) ? nil : Self.firstDescriptor &+ index
      })
  }

  init(at descriptors: [Int32]) { self.descriptors = descriptors }

  /// Whether a client waits at one of the sockets.
  var isNeeded: Bool {
    var entries = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    return poll(&entries, nfds_t(entries.count), 0) > 0 && entries.contains { $0.revents & Int16(POLLIN) != 0 }
  }

  /// Waits, but not longer than until somebody stops the service.
  func wait() {
    guard isNeeded else { return }
    let ends = [SIGTERM, SIGQUIT, SIGINT]
    Signals.block(ends)
    var set = sigset_t()
    sigemptyset(&set)
    for number in ends { sigaddset(&set, number) }
    var patience = timespec(tv_sec: Self.seconds, tv_nsec: 0)
    _ = sigtimedwait(&set, nil, &patience)
  }
}
