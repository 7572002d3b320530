import Glibc

/// Descriptors that connections and request bodies don't use. A reload opens its files with them when all others are in
/// use, so that a revocation doesn't have to wait for clients to leave.
package enum DescriptorReserve {
  /// The size of the reserve for a limit (RLIMIT_NOFILE): 64, or a quarter of a small limit.
  package static func size(of limit: Int) -> Int { max(0, min(64, limit / 4)) }

  /// How many connections each worker may hold. `open`: descriptors that are in use before the first of them.
  package static func connections(limit: Int, open: Int, workers: Int, wanted: Int) -> Int {
    let workers = min(max(1, workers), 1 << 16)
    let room = limit - open - size(of: limit) - process - workers * loop
    return max(1, min(wanted, room / workers))
  }

  /// The smallest limit that leaves each worker `wanted` connections.
  package static func limit(for wanted: Int, workers: Int, open: Int) -> Int {
    let workers = min(max(1, workers), 1 << 16), wanted = min(max(1, wanted), 1 << 24)
    let room = workers * (wanted + loop) + process + max(0, min(open, 1 << 24))
    // Below 256 the reserve is a quarter of the limit, rounded down: a third of the room.
    return room > 192 ? room + 64 : room + (room - 1) / 3
  }

  /// Descriptors that one worker needs besides connections: its epoll set, its mailbox, those that Dispatch opens, and the
  /// connections of operators.
  package static let loop = 4 + ConnectionBudget.reserve
  /// Signals, the watch on files, Dispatch's own.
  package static let process = 24

  /// Whether a descriptor that was just opened is of the reserve: Linux gives the lowest number that is free.
  package static func holds(_ descriptor: Int32) -> Bool { descriptor >= first }

  /// The limit at startup counts, where the daemon raises it before the first client.
  private static let first: Int32 = {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
    let count = Int(clamping: limit.rlim_cur)
    return Int32(clamping: count - size(of: count))
  }()
}
