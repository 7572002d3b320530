import CLinux
import Glibc

/// CLOCK_MONOTONIC: the clock for every span. The wall clock steps when somebody sets it, so it only says dates: those of
/// logs, certificates, revocation lists and messages.
public enum MonotonicClock {
  public static var milliseconds: UInt64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return UInt64(max(0, now.tv_sec)) &* 1000 &+ UInt64(max(0, now.tv_nsec / 1_000_000))
  }

  public static var microseconds: UInt64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return UInt64(max(0, now.tv_sec)) &* 1_000_000 &+ UInt64(max(0, now.tv_nsec / 1000))
  }

  public static var seconds: Int64 { Int64(clamping: milliseconds / 1000) }

  /// A duration of a setting. 68 years are as good as for ever, and leave room in a sum with the clock.
  public static func milliseconds(ofSeconds seconds: Int) -> UInt64 { UInt64(clamping: min(seconds, 1 << 31)) * 1000 }
}
