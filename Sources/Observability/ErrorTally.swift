import Glibc
import Synchronization

/// The last line of the error logs of a process at `error` or above, and how many there were, for who looks at a page and
/// not at the log.
public final class ErrorTally: Sendable {
  package struct Last: Sendable, Equatable {
    package let text: String
    /// Seconds since 1970.
    package let at: Int64
    /// How many lines there were since the start, with this one.
    package let count: UInt64
  }

  /// More characters of a line are not kept.
  static let length = 500

  private let state = Mutex<Last?>(nil)

  /// The last lines.
  package let recent = RecentErrors()

  package init() {}

  /// nil: there was none.
  package var last: Last? { state.withLock { $0 } }

  package func note(_ message: String, _ level: LogLevel = .error, at now: Int64 = Int64(time(nil))) {
    recent.note(level, message, at: now)
    let text =
      message.unicodeScalars.count > Self.length
      ? String(String.UnicodeScalarView(message.unicodeScalars.prefix(Self.length))) + "…" : message
    state.withLock { $0 = Last(text: text, at: now, count: ($0?.count ?? 0) &+ 1) }
  }
}
