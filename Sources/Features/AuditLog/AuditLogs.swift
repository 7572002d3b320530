import Audit
import Bytes
import Crypto
import Observability
import Synchronization
import Traffic

/// The audit logs of the process, over generations.
final class AuditLogs: SharedPart {
  private struct State {
    var writers: [String: AuditWriter] = [:]
    /// Those of the generation that serves.
    var open: Set<String> = []
  }

  /// Tells the lines of this process from those of others.
  private let process = Hex.encode(SystemRandom.bytes(8) ?? [])
  private let shared: SharedState
  private let state = Mutex(State())

  init(_ shared: SharedState) { self.shared = shared }

  /// The writer of a file, which has no file yet before a generation serves that names it.
  func writer(of path: String) -> AuditWriter {
    state.withLock { state in
      if let known = state.writers[path] { return known }
      let fresh = AuditWriter(path, process: process, shared)
      state.writers[path] = fresh
      return fresh
    }
  }

  func serve(_ generation: Generation) {
    let files = generation.http[AuditLog.Files.self]
    let keys = generation.parts[AuditLog.Keys.self].byPath
    let (begun, left) = state.withLock { state in
      let begun = state.open
      state.open = Set(files.all.keys)
      let left = state.writers.filter { files.all[$0.key] == nil }
      for path in left.keys { state.writers[path] = nil }
      return (begun, left)
    }
    for settings in files.all.values.sorted(by: { $0.path < $1.path }) {
      guard let log = generation.logFiles[settings.path] else { continue }
      var event = AuditEvent(begun.contains(settings.path) ? .reload : .start, at: AuditTime.now)
      event.add("generation", Int64(generation.number))
      event.add("configuration", Hex.encode(files.digest))
      event.add("key", keys[settings.path].map { Hex.encode(Array($0.fingerprint.prefix(8))) })
      writer(of: settings.path).attach(log, settings, keys[settings.path], generation.errorLog, first: event)
    }
    for writer in left.values { writer.close() }
  }

  func apiDidChange(_ words: String, by who: String) {
    var event = AuditEvent(.change, at: AuditTime.now)
    event.add("what", words)
    event.add("by", who)
    for writer in writers { writer.take(event) }
  }

  func close() { for writer in writers { writer.close() } }

  private var writers: [AuditWriter] { state.withLock { state in state.open.compactMap { state.writers[$0] } } }
}
