import CLinux
import Glibc
import Systemd

/// A start that is refused, although a socket unit has a client for it.
///
/// The client stays in the socket's queue, so systemd starts the service again at once. After 20 starts in 2 seconds, it
/// would give the socket unit up (`trigger-limit-hit`), and then no start of the service succeeds, also of one that is
/// mended. So such a process leaves the file `pause` in the service's runtime directory, and ExecStopPost= of the unit waits
/// where it is. Not this process: a start that somebody asks for meanwhile would be this one, which fails.
struct ActivationPause: Sendable {
  private static let firstDescriptor: Int32 = 3

  /// The sockets of socket units, without those of systemd's store.
  let descriptors: [Int32]

  /// Call this before the sockets are inherited, which removes their names from the environment.
  init() {
    func value(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
    guard let count = value("LISTEN_FDS"), value("LISTEN_PID") == "\(getpid())" else {
      self.init(at: [])
      return
    }
    self.init(
      count: Int32(count) ?? 0,
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

  /// Leaves the file if it is needed. A failure is not a reason to stop.
  func ask() {
    guard isNeeded, let path = ReloadResult.path(of: "pause") else { return }
    let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o644)
    if descriptor >= 0 { close(descriptor) }
  }
}
