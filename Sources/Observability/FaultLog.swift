import Synchronization

/// Folds faults that repeat, over all workers of the process: the first line of each at once, then summaries.
///
/// A dead upstream fails with every request, and a log full of one line hides the others. Metrics and access logs count
/// everything. Bounded: 256 subjects, each with nine texts (`FaultRecord`); a further subject replaces the one whose last
/// fault is the oldest.
public final class FaultLog: Sendable {
  /// What a fault says about its subject.
  public enum Weight: Sendable {
    /// The subject can't be reached, so one such fault means that it is down.
    case unreachable
    /// An attempt failed. After `FaultRecord.failuresInARow` of these without a success, the subject is down.
    case attempt
    /// The fault is no fault of the subject.
    case none
  }

  /// What the caller writes.
  public struct Decision: Sendable, Equatable {
    /// Whether the caller writes the fault's own line.
    public var writes: Bool
    /// A further line, which says that the subject is down.
    public var downLine: String?
  }

  private struct Entry: Sendable {
    var record = FaultRecord()
    var log: ErrorLog
    var level: LogLevel
  }

  static let subjects = 256

  private let entries = Mutex<[String: Entry]>([:])

  public init() {}

  /// Decides about one fault. `subject`: the beginning of summaries; empty for faults of the process, whose texts no peer
  /// varies.
  public func note(
    _ text: String, about subject: String, _ weight: Weight, _ level: LogLevel, _ log: ErrorLog, now: UInt64
  ) -> Decision {
    let note = entries.withLock { entries in
      if entries[subject] == nil { Self.makeRoom(&entries) }
      var entry = entries[subject] ?? Entry(log: log, level: level)
      // The latest log: that of an earlier generation may have no reader any more.
      (entry.log, entry.level) = (log, level)
      defer { entries[subject] = entry }
      return entry.record.note(text, weight, now: now)
    }
    let down = note.wentDownAfter.map { count in
      count > 1
        ? "\(subject) is down: \(count) attempts in a row failed, the last one: \(text)" : "\(subject) is down: \(text)"
    }
    return Decision(writes: note.choice == .write, downLine: down)
  }

  private static func makeRoom(_ entries: inout [String: Entry]) {
    guard entries.count >= subjects,
      let oldest = entries.min(by: { $0.value.record.notedAt < $1.value.record.notedAt })?.key
    else { return }
    entries[oldest] = nil
  }

  /// The subjects of which the log says that they are down. Who makes its own marks of them anew, as after a reload, asks.
  public var down: Set<String> { entries.withLock { Set($0.filter(\.value.record.isDown).keys) } }

  /// Notes that a subject works, which had failed. Returns false if it is too early to say that it is up again.
  public func succeeded(_ subject: String, now: UInt64) -> Bool {
    let (recovery, entry) = entries.withLock { entries -> (FaultRecord.Recovery, Entry?) in
      guard var entry = entries[subject] else { return (.none, nil) }
      let recovery = entry.record.succeeded(now: now)
      entries[subject] = entry.record.isQuiet ? nil : entry
      return (recovery, entry)
    }
    switch recovery {
    case .none: return true
    case .undecided: return false
    case .up(let failures, let milliseconds):
      // At the level of the faults, so that a reader of those lines finds this one too.
      entry?.log.log(
        entry?.level ?? .error,
        "\(subject) is up again after \(milliseconds / 1000) s, \(failures) \(failures == 1 ? "attempt" : "attempts") failed"
      )
      return true
    }
  }

  /// Writes the summaries that are due, and at the end of the process all. One worker calls this once a second.
  public func tick(now: UInt64, isLast: Bool = false) {
    let lines = entries.withLock { entries -> [(ErrorLog, LogLevel, String)] in
      var lines: [(ErrorLog, LogLevel, String)] = []
      for subject in entries.keys.sorted() {
        guard var entry = entries[subject] else { continue }
        for summary in entry.record.due(now: now, isLast: isLast) {
          lines.append((entry.log, entry.level, Self.words(subject, summary)))
        }
        entries[subject] = entry.record.isQuiet ? nil : entry
      }
      return lines
    }
    for (log, level, line) in lines { log.log(level, line) }
  }

  private static func words(_ subject: String, _ summary: FaultRecord.Summary) -> String {
    let text = summary.text ?? "other faults"
    return
      "\(subject.isEmpty ? "" : "\(subject): ")\(text) (\(summary.folded) more of these in \(summary.milliseconds / 1000) s)"
  }
}
