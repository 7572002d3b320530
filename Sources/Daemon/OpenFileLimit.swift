import Configuration
import Crypto
import Glibc
import Observability
import Transport

/// The process's limit of open files: what `worker_rlimit_nofile` says, or else what the connections need.
///
/// Shells and service managers give a soft limit of 1,024 for the sake of programs that use select(2). Nothing here does,
/// and the daemon starts no other program, so it raises the soft limit by itself, up to the hard one.
enum OpenFileLimit {
  /// What is open before the first connection besides sockets and loops, as long as nobody has counted it.
  private static let spare: UInt64 = 192

  /// Before anything is opened. `sockets`: how many are going to listen. Warnings only: too few descriptors is a bound on
  /// connections, no reason not to serve.
  static func raise(_ main: MainSettings, workers: Int, sockets: Int) -> [Diagnostic] {
    guard let limit = current() else { return [] }
    if let wanted = main.openFiles { return set(rlim_t(wanted), from: limit) }
    let loops = UInt64(clamping: workers) &* UInt64(DescriptorReserve.loop)
    raiseSoft(
      to: UInt64(clamping: workers) &* UInt64(clamping: main.workerConnections) &+ loops &+ UInt64(clamping: sockets)
        &+ spare)
    return []
  }

  /// `worker_connections`, or what the limit leaves of them to each worker: a reload's files are open beside them. To be
  /// asked once every log and socket is open; what they take is counted, and the soft limit raised once more for them.
  static func connections(_ main: MainSettings, workers: Int) -> (each: Int, warning: Diagnostic?) {
    let wanted = main.workerConnections, assumed = 64
    let open = (try? namesInDirectory("/proc/self/fd").count) ?? assumed
    if main.openFiles == nil {
      raiseSoft(to: UInt64(clamping: DescriptorReserve.limit(for: wanted, workers: workers, open: open)))
    }
    guard let limit = current() else { return (wanted, nil) }
    let each = DescriptorReserve.connections(
      limit: Int(clamping: limit.rlim_cur), open: open, workers: workers, wanted: wanted)
    if each >= wanted { return (each, nil) }
    return (
      each,
      Diagnostic(
        .warning, at: nil,
        "\(wanted) worker_connections exceed open file resource limit: \(limit.rlim_cur): each worker takes \(each)",
        hint: main.openFiles == nil
          ? "it is the hard limit: raise that (`ulimit -Hn`, LimitNOFILE= in the unit)"
          : "raise worker_rlimit_nofile, or leave it out")
    )
  }

  /// `worker_rlimit_nofile`, as nginx has it: the limit, soft and hard. Where the hard limit can't be raised, it is what
  /// there is.
  private static func set(_ wanted: rlim_t, from limit: rlimit) -> [Diagnostic] {
    guard wanted != limit.rlim_cur else { return [] }
    var raised = rlimit(rlim_cur: wanted, rlim_max: max(limit.rlim_max, wanted))
    if setrlimit(RLIMIT_NOFILE, &raised) == 0 { return [] }
    let code = errno
    raiseSoft(to: UInt64(wanted))
    return [
      Diagnostic(
        .warning, at: nil,
        "setrlimit(RLIMIT_NOFILE, \(wanted)) failed (\(code): \(String(cString: strerror(code)))); "
          + "the limit is \(current()?.rlim_cur ?? limit.rlim_cur)", hint: "raise LimitNOFILE= in the unit")
    ]
  }

  /// Up to the hard limit; never down.
  private static func raiseSoft(to wanted: UInt64) {
    guard var limit = current(), limit.rlim_cur < wanted, limit.rlim_cur < limit.rlim_max else { return }
    limit.rlim_cur = min(rlim_t(wanted), limit.rlim_max)
    // Nothing is lost where it fails: what the limit leaves is counted after.
    _ = setrlimit(RLIMIT_NOFILE, &limit)
  }

  private static func current() -> rlimit? {
    var limit = rlimit()
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit : nil
  }
}

private let RLIMIT_NOFILE = __rlimit_resource_t(Glibc.RLIMIT_NOFILE.rawValue)
