import CLinux
import Glibc
import Synchronization

/// Counts the lines that logs lost, by log, and knows when a log takes lines again.
///
/// A log loses lines when its disk is full, or when nobody reads its pipe. The first loss goes to stderr at once, because
/// the error log may be on the same disk. The daemon asks for the changes every few seconds and logs them.
public final class LogLosses: Sendable {
  /// One log that began to lose lines, or takes them again.
  public enum Change: Sendable, Equatable {
    case began(path: String, reason: String)
    case ended(path: String, lines: UInt64, seconds: UInt64, reason: String)
  }

  private struct Loss: Sendable {
    var lines: UInt64
    var code: Int32
    var beganAt: UInt64
    var lastAt: UInt64
    var isTold = false
    /// Whether a write has succeeded since.
    var isOver = false
  }

  private struct State: Sendable {
    var losses: [String: Loss] = [:]
    var totals: [String: UInt64] = [:]
  }

  /// A log takes lines again after so many milliseconds without a loss: a full disk takes some lines and not others.
  private static let calm: UInt64 = 2000

  private let state = Mutex(State())
  /// Whether any log is losing lines, so that a write that succeeds takes no lock in general.
  private let isLosing = Atomic<Bool>(false)

  public init() {}

  /// The number of lines that all logs lost since the start.
  public var total: UInt64 { state.withLock { $0.totals.values.reduce(0) { $0 &+ $1 } } }

  /// The same by log.
  public var totals: [String: UInt64] { state.withLock { $0.totals } }

  func lines(of path: String) -> UInt64 { state.withLock { $0.totals[path] ?? 0 } }

  func note(
    _ path: String, _ lines: UInt64, _ code: Int32, tellsStandardError: Bool, now: UInt64 = MonotonicClock.milliseconds
  ) {
    let lines = max(1, lines)
    let isFirst = state.withLock { state in
      state.totals[path, default: 0] &+= lines
      let former = state.losses[path]
      var loss = former ?? Loss(lines: 0, code: code, beganAt: now, lastAt: now)
      loss.lines &+= lines
      (loss.code, loss.lastAt, loss.isOver) = (code, now, false)
      state.losses[path] = loss
      isLosing.store(true, ordering: .relaxed)
      return former == nil
    }
    if isFirst, tellsStandardError { Self.tell("sallyport: the log \(path) loses lines: \(Self.words(code))\n") }
  }

  func noteSuccess(_ path: String) {
    guard isLosing.load(ordering: .relaxed) else { return }
    state.withLock { $0.losses[path]?.isOver = true }
  }

  /// The logs that lose lines, and why: those that have lost one, and have not taken any for some time since.
  func current(now: UInt64 = MonotonicClock.milliseconds) -> [(path: String, reason: String)] {
    guard isLosing.load(ordering: .relaxed) else { return [] }
    return state.withLock { $0.losses }
      .filter { !$0.value.isOver || LineFolding.age($0.value.lastAt, now) < Self.calm }
      .map { (path: $0.key, reason: Self.words($0.value.code)) }.sorted { $0.path < $1.path }
  }

  /// What changed since the last call.
  public func changes(now: UInt64 = MonotonicClock.milliseconds) -> [Change] {
    guard isLosing.load(ordering: .relaxed) else { return [] }
    return state.withLock { state in
      var changes: [Change] = []
      for path in state.losses.keys.sorted() {
        guard let loss = state.losses[path] else { continue }
        let reason = Self.words(loss.code)
        if loss.isOver, LineFolding.age(loss.lastAt, now) >= Self.calm {
          let seconds = LineFolding.age(loss.beganAt, loss.lastAt) / 1000
          changes.append(.ended(path: path, lines: loss.lines, seconds: seconds, reason: reason))
          state.losses[path] = nil
        } else if !loss.isTold {
          changes.append(.began(path: path, reason: reason))
          state.losses[path]?.isTold = true
        }
      }
      if state.losses.isEmpty { isLosing.store(false, ordering: .relaxed) }
      return changes
    }
  }

  /// stderr may be a pipe that nobody reads.
  private static func tell(_ text: String) {
    var text = text
    var wanted = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
    guard poll(&wanted, 1, 0) > 0 else { return }
    text.withUTF8 { _ = Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }

  private static func words(_ code: Int32) -> String {
    code == EAGAIN
      ? "it takes them too slowly, and more bytes wait than may wait" : "(\(code): \(String(cString: strerror(code))))"
  }
}
