import Dispatch
import Glibc
import Systemd
import Traffic

/// The line that `systemctl status` shows: what the process does, and live counts, every five seconds if they changed.
///
/// A request costs nothing for it: the workers count for `stub_status` anyway.
@MainActor
final class ServiceStatus {
  private let metrics: Metrics
  private var timer: (any DispatchSourceTimer)?
  private var state = ""
  private var sent = ""

  private static let seconds = 5

  init(_ metrics: Metrics) { self.metrics = metrics }

  /// Says what the process does from now on.
  func tell(_ state: String, with notifications: Notification...) {
    self.state = state
    sent = line
    Notification.send(notifications + [.status(sent)])
    begin()
  }

  private var line: String { "\(state); \(metrics.activity)" }

  private func begin() {
    guard timer == nil, getenv("NOTIFY_SOCKET") != nil else { return }
    let timer = DispatchSource.makeTimerSource(queue: .main)
    timer.schedule(
      deadline: .now() + .seconds(Self.seconds), repeating: .seconds(Self.seconds), leeway: .seconds(1))
    timer.setEventHandler { [weak self] in MainActor.assumeIsolated { self?.refresh() } }
    timer.activate()
    self.timer = timer
  }

  private func refresh() {
    let line = line
    guard line != sent else { return }
    sent = line
    Notification.send(.status(line))
  }
}
