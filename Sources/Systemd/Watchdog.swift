import CSystemd

/// systemd's watchdog (WatchdogSec=, sd_watchdog_enabled(3)).
package enum Watchdog {
  /// How often to send `Notification.watchdog`: half of what systemd waits for; nil when it doesn't ask for any.
  package static var interval: Duration? {
    var microseconds: UInt64 = 0
    guard sd_watchdog_enabled(0, &microseconds) > 0, microseconds > 0 else { return nil }
    return .microseconds(Int64(clamping: microseconds / 2))
  }
}
