import Configuration
import Crypto
import Forward
import Glibc
import Observability
import Traffic
import Transport

/// The process's limit of open files: `worker_rlimit_nofile`, or else what the connections need.
///
/// Shells and service managers set a soft limit of 1,024 for programs that use select(2). The daemon does not use it
/// and starts no other program, so it raises its soft limit up to the hard limit.
enum OpenFileLimit {
  /// An estimate of the descriptors that are open before the first connection, besides sockets and loops.
  private static let spare: UInt64 = 192

  /// Call this before anything is opened. `sockets`: how many sockets will listen. It returns only warnings: too few
  /// descriptors limit the connections but do not prevent serving.
  static func raise(_ main: MainSettings, workers: Int, sockets: Int) -> [Diagnostic] {
    guard let limit = current() else { return [] }
    let loops = UInt64(clamping: workers) &* UInt64(DescriptorReserve.loop)
    let needed =
      UInt64(clamping: workers) &* UInt64(clamping: main.workerConnections) &+ loops &+ UInt64(clamping: sockets)
      &+ spare
    defer { reserveTable(for: needed) }
    if let wanted = main.openFiles { return set(rlim_t(wanted), from: limit) }
    raiseSoft(to: needed)
    return []
  }

  /// A quarter of the descriptors that the process may have.
  static var quarter: Int { Int(clamping: (current()?.rlim_cur ?? 1024) / 4) }

  /// Lets the kernel make its table of this process's descriptors as large as it will be, at most for 65,536 (half a
  /// MiB), while there is one thread.
  ///
  /// The table doubles when it is full. With several threads, the one that needs the place then waits in accept(2) for
  /// an RCU grace period: a worker stood still for 16 to 18 ms at 256, 512 and 1,024 descriptors, and the queue of
  /// connections overflowed.
  private static func reserveTable(for descriptors: UInt64) {
    guard let limit = current() else { return }
    let last = Int32(clamping: min(descriptors, UInt64(limit.rlim_cur), 65_536)) - 1
    // The table keeps its size when the copy is closed. Without standard error it grows as it is needed.
    let copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, last)
    if copy >= 0 { close(copy) }
  }

  /// Returns `worker_connections`, or fewer if the limit leaves each worker fewer; a reload needs files besides
  /// connections.
  ///
  /// Call this when every log and socket is open. It counts the open descriptors and raises the soft limit for them
  /// again.
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

  /// Applies `worker_rlimit_nofile` as nginx does, to the soft and the hard limit. If the hard limit can't be raised,
  /// raises the soft limit up to it.
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

  /// Raises the soft limit up to the hard limit; never lowers it.
  private static func raiseSoft(to wanted: UInt64) {
    guard var limit = current(), limit.rlim_cur < wanted, limit.rlim_cur < limit.rlim_max else { return }
    limit.rlim_cur = min(rlim_t(wanted), limit.rlim_max)
    // A failure does no harm: the caller reads the limit again afterwards.
    _ = setrlimit(RLIMIT_NOFILE, &limit)
  }

  private static func current() -> rlimit? {
    var limit = rlimit()
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit : nil
  }
}

private let RLIMIT_NOFILE = __rlimit_resource_t(Glibc.RLIMIT_NOFILE.rawValue)
