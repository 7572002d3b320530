import Glibc

/// Times as lines have them.
package enum AuditTime {
  /// Milliseconds since 1970.
  package static var now: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) &* 1000 &+ Int64(time.tv_nsec) / 1_000_000
  }

  /// `2026-11-30T02:24:21.123Z`. `moment`: milliseconds since 1970.
  static func text(_ moment: Int64) -> String {
    var instant = time_t(moment / 1000), parts = tm()
    guard moment >= 0, gmtime_r(&instant, &parts) != nil else { return "\(moment)" }
    func padded(_ number: some BinaryInteger, _ width: Int) -> String {
      let text = "\(number)"
      return String(repeating: "0", count: max(0, width - text.count)) + text
    }
    let date = "\(padded(Int(parts.tm_year) + 1900, 4))-\(padded(parts.tm_mon + 1, 2))-\(padded(parts.tm_mday, 2))"
    let clock = "\(padded(parts.tm_hour, 2)):\(padded(parts.tm_min, 2)):\(padded(parts.tm_sec, 2))"
    return "\(date)T\(clock).\(padded(moment % 1000, 3))Z"
  }
}
