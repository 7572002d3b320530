import Synchronization

/// A level that error logs take for a time besides those of `error_log`, because somebody looks for a cause.
package struct LogLevelOverride: Sendable, Equatable {
  package let level: LogLevel
  /// Milliseconds of the monotonic clock.
  private let end: UInt64
  /// Who asked for it.
  package let asker: String

  /// Seconds.
  package static let longest = 86_400
  /// Those whose lines tell of the begin and the end, which are written at `notice`.
  package static let levels: [LogLevel] = [.debug, .info, .notice]

  package init(_ level: LogLevel, seconds: Int, asker: String, now: UInt64 = MonotonicClock.milliseconds) {
    self.level = min(level, .notice)
    end = now &+ UInt64(max(1, min(seconds, Self.longest))) * 1000
    self.asker = asker
  }

  /// The seconds that are left; 0: it is over.
  package func rest(now: UInt64 = MonotonicClock.milliseconds) -> UInt64 { end > now ? (end - now + 999) / 1000 : 0 }

  package func append(to json: inout JSONText) {
    json.member("level", level.name)
    json.member("seconds", Int64(clamping: rest()))
    json.member("by", asker)
  }
}

/// The error logs of a process, with the level that they take for a time. It outlives generations, whose logs follow it.
package final class ErrorLogLevels: Sendable {
  private struct Entry { weak var log: ErrorLog? }

  private struct State {
    var entries: [Entry] = []
    var current: LogLevelOverride?

    func apply() { for entry in entries { entry.log?.lower(to: current?.level) } }
  }

  private let state = Mutex(State())

  package var current: LogLevelOverride? { state.withLock { $0.current } }

  package func follow(_ log: ErrorLog) {
    state.withLock { state in
      state.entries = state.entries.filter { $0.log != nil } + [Entry(log: log)]
      log.lower(to: state.current?.level)
    }
  }

  /// Begins an override, in place of the one that there is.
  package func begin(_ override: LogLevelOverride) {
    state.withLock { state in
      state.current = override
      state.apply()
    }
  }

  /// Ends the override that `isDue`. `tell`: writes the line that says so, which the logs still take. Returns false if none
  /// is due.
  package func end(if isDue: (LogLevelOverride) -> Bool, _ tell: (LogLevelOverride) -> Void) -> Bool {
    state.withLock { state in
      guard let current = state.current, isDue(current) else { return false }
      tell(current)
      state.current = nil
      state.apply()
      return true
    }
  }
}
