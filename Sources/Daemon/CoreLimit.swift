import Configuration
import Forward
import Glibc
import Observability
import Traffic

/// Applies `worker_rlimit_core`. A core dump holds private keys and upstream passwords. Unless the configuration sets a
/// size, the process writes no core, whatever limit it was started with.
enum CoreLimit {
  /// Call this before the first secret is read. Returns a warning when the limit can't be set.
  static func set(_ main: MainSettings) -> [Diagnostic] {
    let wanted = rlim_t(main.coreSize)
    var limit = rlimit()
    guard getrlimit(RLIMIT_CORE, &limit) == 0, limit.rlim_cur != wanted else { return [] }
    limit = rlimit(rlim_cur: wanted, rlim_max: max(limit.rlim_max, wanted))
    if setrlimit(RLIMIT_CORE, &limit) == 0 { return [] }
    let code = errno
    return [
      Diagnostic(
        .warning, at: nil,
        "setrlimit(RLIMIT_CORE, \(wanted)) failed (\(code): \(String(cString: strerror(code)))); the limit stays",
        hint: "raise LimitCORE= in the unit")
    ]
  }
}

private let RLIMIT_CORE = __rlimit_resource_t(Glibc.RLIMIT_CORE.rawValue)
