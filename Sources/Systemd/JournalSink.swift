package import Logging
import CSystemd
import Glibc
import Observability

/// `error_log journal`: structured entries, with their level as PRIORITY.
///
/// Without a journal (in a container), lines go to stderr with the prefix `<N>`, which systemd and other log collectors
/// understand (sd-daemon(3)). A lost entry never stops the daemon.
package struct JournalSink: LogHandler {
  package var logLevel = Logger.Level.trace
  package var metadata: Logger.Metadata = [:]
  private let hasJournal: Bool

  package static let socketPath = "/run/systemd/journal/socket"

  /// Checks once whether the journal's socket exists.
  package init(socketPath: String = Self.socketPath) {
    // sd_journal_sendv reports success even without a journal, so this checks the socket.
    hasJournal = access(socketPath, F_OK) == 0
  }

  package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  package func log(event: LogEvent) {
    let severity = LogLevel(event).syslogSeverity
    let message = ErrorLogLine.message(event, under: metadata)
    if hasJournal {
      Self.send(JournalEntry.fields(severity: Int(severity), message: message))
    } else {
      LogFile.standardError.write(string: "<\(severity)>\(message)\n")
    }
  }

  private static func send(_ fields: [String]) {
    let bytes = fields.map { Array($0.utf8) }
    let joined = bytes.flatMap { $0 }
    joined.withUnsafeBytes { all in
      guard let base = UnsafeMutableRawPointer(mutating: all.baseAddress) else { return }
      var vectors: [iovec] = []
      var start = 0
      for field in bytes {
        vectors.append(iovec(iov_base: base + start, iov_len: field.count))
        start += field.count
      }
      _ = sd_journal_sendv(vectors, Int32(truncatingIfNeeded: vectors.count))
    }
  }
}
