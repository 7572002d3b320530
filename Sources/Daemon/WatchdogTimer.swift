import Dispatch
import Observability
import Systemd

/// Notifies systemd's watchdog, but only while every worker answers: systemd must notice a hung worker.
@MainActor
final class WatchdogTimer {
  private enum Round { case answered, waiting, overdue }

  private let fleet: WorkerFleet
  private let log: ErrorLog
  private let timer: any DispatchSourceTimer
  private var round = Round.answered

  /// Returns nil when systemd does not use its watchdog.
  init?(_ fleet: WorkerFleet, log: ErrorLog) {
    guard let interval = Watchdog.interval else { return nil }
    self.fleet = fleet
    self.log = log
    timer = DispatchSource.makeTimerSource(queue: .main)
    let (seconds, attoseconds) = interval.components
    let nanoseconds = Int(clamping: seconds) &* 1_000_000_000 &+ Int(clamping: attoseconds / 1_000_000_000)
    timer.schedule(deadline: .now(), repeating: .nanoseconds(nanoseconds))
    timer.setEventHandler { [unowned self] in MainActor.assumeIsolated { tick() } }
    timer.activate()
  }

  private func tick() {
    guard round == .answered else {
      if round == .waiting { log.alert("a worker does not answer: systemd's watchdog is not notified") }
      round = .overdue
      return
    }
    Notification.send(.watchdog)
    round = .waiting
    fleet.each({ _, _ in }) { [weak self] in self?.round = .answered }
  }
}
