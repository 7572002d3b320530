import Glibc

/// How long a stop may take without `worker_shutdown_timeout`: STOP_SECONDS, which the unit sets below its
/// TimeoutStopSec=. Otherwise systemd would kill the process, and what it has still to write would be lost.
enum StopPatience {
  /// In milliseconds; 0: for ever.
  static var milliseconds: Int { getenv("STOP_SECONDS").map { parsed(String(cString: $0)) } ?? 0 }

  /// A text that is no number of seconds, 1 to 86,400, counts as none.
  static func parsed(_ text: String) -> Int {
    guard let seconds = Int(text), (1...86_400).contains(seconds) else { return 0 }
    return seconds * 1000
  }
}
