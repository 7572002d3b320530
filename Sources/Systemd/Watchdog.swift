import CSystemd

/// systemd's watchdog (WatchdogSec=, sd_watchdog_enabled(3)).
package enum Watchdog {
  /// The interval for `Notification.watchdog`: half of the time that systemd waits; nil when systemd's watchdog is off.
  package static var interval: Duration? {
    var microseconds: UInt64 = 0
    guard sd_watchdog_enabled(0, &microseconds) > 0, microseconds > 0 else { return nil }
    return .microseconds(Int64(clamping: microseconds / 2))
  }
}
