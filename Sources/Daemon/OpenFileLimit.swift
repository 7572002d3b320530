import Configuration
import Crypto
import Glibc
import Observability
import Transport

/// `worker_rlimit_nofile`, the soft limit raised towards what the connections need, and what it leaves to them.
enum OpenFileLimit {
  /// What logs, material and the reserve of a reload take besides connections, sockets and loops.
  private static let spare: UInt64 = 192

  /// `sockets`: how many are going to listen. Warnings only: too few descriptors is a bound on connections, no reason not
  /// to serve.
  static func raise(_ main: MainSettings, workers: Int, sockets: Int) -> [Diagnostic] {
    var limit = rlimit()
    guard getrlimit(RLIMIT_NOFILE, &limit) == 0 else { return [] }
    let loops = UInt64(clamping: workers) &* UInt64(DescriptorReserve.loop)
    let needed =
      UInt64(clamping: workers) &* UInt64(clamping: main.workerConnections) &+ loops &+ UInt64(clamping: sockets)
      &+ spare
    let wanted = main.openFiles ?? max(UInt64(limit.rlim_cur), min(needed, UInt64(limit.rlim_max)))
    guard wanted != limit.rlim_cur else { return [] }
    var raised = rlimit(rlim_cur: rlim_t(wanted), rlim_max: max(limit.rlim_max, rlim_t(wanted)))
    if setrlimit(RLIMIT_NOFILE, &raised) == 0 { return [] }
    let code = errno
    return [
      Diagnostic(
        .warning, at: nil,
        "setrlimit(RLIMIT_NOFILE, \(wanted)) failed (\(code): \(String(cString: strerror(code)))); "
          + "the limit stays \(limit.rlim_cur)", hint: "raise LimitNOFILE= in the unit")
    ]
  }

  /// `worker_connections`, or what the limit leaves of them to each worker: a reload's files are open beside them. To be
  /// asked once every socket listens.
  static func connections(_ main: MainSettings, workers: Int) -> (each: Int, warning: Diagnostic?) {
    let wanted = main.workerConnections
    var limit = rlimit()
    guard getrlimit(RLIMIT_NOFILE, &limit) == 0 else { return (wanted, nil) }
    let assumed = 64
    let each = DescriptorReserve.connections(
      limit: Int(clamping: limit.rlim_cur), open: (try? namesInDirectory("/proc/self/fd").count) ?? assumed,
      workers: workers, wanted: wanted)
    if each >= wanted { return (each, nil) }
    return (
      each,
      Diagnostic(
        .warning, at: nil,
        "\(wanted) worker_connections exceed open file resource limit: \(limit.rlim_cur): each worker takes \(each)",
        hint: "set worker_rlimit_nofile, or LimitNOFILE= in the unit")
    )
  }
}

#if canImport(Glibc)
  private let RLIMIT_NOFILE = __rlimit_resource_t(Glibc.RLIMIT_NOFILE.rawValue)
#endif
