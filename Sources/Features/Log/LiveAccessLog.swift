import Bytes
import Forward
import Observability
import Traffic

/// An `access_log` in one worker. Locations with the same settings share it.
final class LiveAccessLog {
  let writer: AccessLogWriter
  let line: LogLine
  let condition: CompiledTemplate?
  /// nil: the log isn't the journal.
  let journal: (socket: JournalSocket, record: JournalRecord)?
  /// nil: the log is one file.
  let name: LiveLogName?

  init(_ settings: AccessLogSettings, _ writer: AccessLogWriter) {
    self.writer = writer
    self.line = LogLine(settings.format, settings.escape)
    self.condition = settings.condition.map(\.compiled)
    self.name = settings.name.map { LiveLogName($0) }
    self.journal = writer.journal.map { ($0, JournalRecord()) }
  }
}

/// The name of a log file that requests choose, in one worker.
final class LiveLogName {
  private let parts: [CompiledTemplate]
  /// The name that was made last. The buffer is kept, so that no line allocates one.
  private var text = ByteBuffer()

  init(_ template: Template) { parts = template.parts.map { Template([$0]).compiled } }

  /// Calls `body` with the name for a line, or tells of a name that would leave the folder. Then the line is in the
  /// error log only: a client must not choose a file outside.
  func use(_ transaction: Transaction, _ body: (UnsafeRawBufferPointer) -> Void) {
    text.removeAll()
    var isAdmitted = true
    for part in parts {
      let start = text.count
      part.append(transaction, to: &text)
      if part.constant == nil {
        isAdmitted = isAdmitted && LogFileName.admits(UnsafeRawBufferPointer(rebasing: text.readable[start...]))
      }
    }
    guard isAdmitted, LogFileName.isBelow(text.readable) else {
      return transaction.log(
        .error, "the name of an access log would leave its folder: \"\(LogEscape.text(Array(text.readable)))\"")
    }
    body(text.readable)
  }
}

/// Every access log of a generation in one worker.
final class LiveAccessLogs: LivePart {
  private let writers: [AccessLogDestination: AccessLogWriter]
  private var made: [AccessLogSettings: LiveAccessLog] = [:]

  required init(_ makers: LiveMakers) {
    writers = makers.generation.accessLogs.mapValues { $0.makeWriter() }
    super.init(makers)
  }

  /// Hands over the lines that are as old as `flush=` of their log says.
  override func tick(now: UInt64) { for writer in writers.values { writer.flushIfOld(now: now) } }
  override func flush() { for writer in writers.values { writer.flush() } }
  override func close() { flush() }

  /// nil: no log is open for the settings.
  func log(for settings: AccessLogSettings) -> LiveAccessLog? {
    if let log = made[settings] { return log }
    let log = writers[settings.destination].map { LiveAccessLog(settings, $0) }
    made[settings] = log
    return log
  }
}
