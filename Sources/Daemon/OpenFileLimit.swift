import Configuration
import Glibc
import Observability

/// `worker_rlimit_nofile`, and the soft limit raised towards what the connections need.
enum OpenFileLimit {
  /// What logs, sockets, loops and material take besides connections.
  private static let spare: UInt64 = 64

  /// Warnings only: too few descriptors is a bound on connections, no reason not to serve.
  static func raise(_ main: MainSettings, workers: Int) -> [Diagnostic] {
    var limit = rlimit()
    guard getrlimit(RLIMIT_NOFILE, &limit) == 0 else { return [] }
    let connections = UInt64(clamping: workers) &* UInt64(clamping: main.workerConnections)
    let wanted = main.openFiles ?? max(UInt64(limit.rlim_cur), min(connections &+ spare, UInt64(limit.rlim_max)))
    var diagnostics: [Diagnostic] = []
    if wanted != limit.rlim_cur {
      var raised = rlimit(rlim_cur: rlim_t(wanted), rlim_max: max(limit.rlim_max, rlim_t(wanted)))
      if setrlimit(RLIMIT_NOFILE, &raised) == 0 {
        limit = raised
      } else {
        let code = errno
        diagnostics.append(
          Diagnostic(
            .warning, at: nil,
            "setrlimit(RLIMIT_NOFILE, \(wanted)) failed (\(code): \(String(cString: strerror(code)))); "
              + "the limit stays \(limit.rlim_cur)", hint: "raise LimitNOFILE= in the unit"))
      }
    }
    if connections > UInt64(limit.rlim_cur) {
      diagnostics.append(
        Diagnostic(
          .warning, at: nil,
          "\(connections) worker_connections exceed open file resource limit: \(limit.rlim_cur)",
          hint: "set worker_rlimit_nofile, or LimitNOFILE= in the unit"))
    }
    return diagnostics
  }
}

#if canImport(Glibc)
  private let RLIMIT_NOFILE = __rlimit_resource_t(Glibc.RLIMIT_NOFILE.rawValue)
#endif
