import CSystemd
import Glibc
import Observability
import Synchronization

/// A service's notifications to systemd (sd_notify(3)).
///
/// With `Type=notify`, systemd waits for these before it considers the service started or reloaded. Without a
/// NOTIFY_SOCKET, sending does nothing.
package enum Notification: Sendable, Hashable {
  case ready
  /// A reload begins at this CLOCK_MONOTONIC time, in microseconds.
  case reloading(monotonicMicroseconds: UInt64)
  case stopping
  /// One line for `systemctl status`; several become one.
  case status(String)
  case mainProcess(Int32)
  /// systemd closes the sockets that it has stored under this name.
  case forget(socketsNamed: String)
  /// The service is still alive, for WatchdogSec=.
  case watchdog

  /// A reload that begins now.
  package static var reloadingNow: Notification {
    var now = timespec()
    guard clock_gettime(CLOCK_MONOTONIC, &now) == 0 else { return .reloading(monotonicMicroseconds: 0) }
    let seconds = UInt64(clamping: now.tv_sec), nanoseconds = UInt64(clamping: now.tv_nsec)
    return .reloading(monotonicMicroseconds: seconds &* 1_000_000 &+ nanoseconds / 1_000)
  }

  /// Returns the datagram for several notifications at once.
  package static func text(_ parts: [Notification]) -> String { parts.map(\.text).joined(separator: "\n") }

  private var text: String {
    switch self {
    case .ready: "READY=1"
    case .reloading(let instant): "RELOADING=1\nMONOTONIC_USEC=\(instant)"
    case .stopping: "STOPPING=1"
    case .status(let line): "STATUS=" + line.onOneLine
    case .mainProcess(let number): "MAINPID=\(number)"
    case .forget(let name): "FDSTOREREMOVE=1\nFDNAME=\(name)"
    case .watchdog: "WATCHDOG=1"
    }
  }

  /// Sends nothing while this process isn't the service's main process: a new binary that doesn't serve yet, or one that was replaced.
  /// systemd would refuse its notifications, and log a warning for each.
  package static func holdBack(_ isHeldBack: Bool) { heldBack.store(isHeldBack, ordering: .relaxed) }

  private static let heldBack = Atomic<Bool>(false)

  /// Waits until systemd has processed what was sent, for at most this time.
  package static func waitUntilProcessed(microseconds: UInt64) { _ = sd_notify_barrier(0, microseconds) }

  /// The result of sending.
  package enum Outcome: Sendable, Hashable {
    case sent
    /// NOTIFY_SOCKET is not set.
    case nobodyListens
    /// The errno.
    case failed(Int32)
  }

  /// Sends notifications as one datagram. A failure is not a reason to stop.
  @discardableResult
  package static func send(_ parts: Notification...) -> Outcome { send(parts) }

  @discardableResult
  package static func send(_ parts: [Notification]) -> Outcome {
    if heldBack.load(ordering: .relaxed) { return .nobodyListens }
    let result = sd_notify(0, text(parts))
    if result > 0 { return .sent }
    return result == 0 ? .nobodyListens : .failed(-result)
  }
}
