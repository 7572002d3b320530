import Glibc

/// systemd's watchdog (WatchdogSec=, sd_watchdog_enabled(3)).
package enum Watchdog {
  /// The interval for `Notification.watchdog`: half of the time that systemd waits; nil when systemd's watchdog is off.
  package static var interval: Duration? {
    guard case .number(let microseconds) = ServiceEnvironment.number("WATCHDOG_USEC"), microseconds > 0 else {
      return nil
    }
    switch ServiceEnvironment.number("WATCHDOG_PID") {
    case .absent: break
    case .number(let process): guard process == UInt64(clamping: getpid()) else { return nil }
    case .malformed: return nil
    }
    return .microseconds(Int64(clamping: microseconds / 2))
  }
}
