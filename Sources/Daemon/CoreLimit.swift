import Configuration
import Glibc
import Observability

/// `worker_rlimit_core`. A core holds private keys, and passwords of upstreams: unless the configuration says how large
/// one may be, the process leaves none, whatever limit it was started with.
enum CoreLimit {
  /// Before the first secret is read. A warning when it can't be set.
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
