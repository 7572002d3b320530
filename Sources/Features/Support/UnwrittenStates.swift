import Forward
package import Observability
import Synchronization
package import Traffic
package import Transport
import Upstream

/// The files of `state` and of denials that could not be written after a change of the API: they are written again until
/// they can be, so that a disk that was full for a moment costs no change.
package final class UnwrittenStates: SharedPart {
  /// Writes what counts at that time. Returns why it could not. Blocks.
  package typealias Write = @Sendable () -> String?

  private struct Entry: Sendable {
    let write: Write
    var wait: UInt64
    /// Milliseconds of the monotonic clock.
    var dueAt: UInt64
    var isUnderWay = false
  }

  private static let first: UInt64 = 4000
  private static let longest: UInt64 = 60_000

  private struct State: Sendable {
    var waiting: [String: Entry] = [:]
    /// The files of the configuration; nil: not known yet.
    var paths: Set<String>?
  }

  private let state = Mutex(State())
  private let faults: OngoingFaults

  init(_ faults: OngoingFaults) { self.faults = faults }

  package convenience init(_ shared: SharedState) { self.init(shared.ongoing) }

  /// Notes how a write ended. `fault`: why the file could not be written; nil: it was. A file that the configuration has no
  /// more is not written again.
  func note(_ path: String, _ fault: String?, _ write: @escaping Write, now: UInt64 = MonotonicClock.milliseconds) {
    state.withLock { state in
      guard fault != nil, state.paths?.contains(path) ?? true else {
        state.waiting[path] = nil
        return
      }
      let wait = min(state.waiting[path].map { $0.wait &* 2 } ?? Self.first, Self.longest)
      state.waiting[path] = Entry(write: write, wait: wait, dueAt: now &+ wait)
    }
    faults.note(.state, path, fault.map { "\"\(path)\" could not be written, so a restart forgets changes: \($0)" })
  }

  /// Writes again what is due, on threads of the pool. Call it every few seconds.
  package func retry(_ pool: BlockingPool, _ log: ErrorLog, now: UInt64 = MonotonicClock.milliseconds) {
    let due = state.withLock { state in
      let due = state.waiting.filter { !$0.value.isUnderWay && $0.value.dueAt <= now }
      for path in due.keys { state.waiting[path]?.isUnderWay = true }
      return due
    }
    for (path, entry) in due {
      let outcome = pool.run(.stateFiles, for: path) { [self] in
        let fault = entry.write()
        note(path, fault, entry.write)
        if fault == nil { log.notice("api: \"\(path)\" is written again") }
      }
      if !outcome.isTaken { state.withLock { $0.waiting[path]?.isUnderWay = false } }
    }
  }

  /// Forgets the files that the configuration has no more.
  package func follow(_ http: HTTPSettings, denials: String?) {
    keep(only: Set(http.stateFiles + [denials].compactMap { $0 }))
  }

  func keep(only paths: Set<String>) {
    state.withLock { state in
      state.paths = paths
      state.waiting = state.waiting.filter { paths.contains($0.key) }
    }
    faults.keep(.state, only: paths)
  }
}
