import Bytes
import Observability

/// A `log_format` as a worker writes it.
///
/// Text, and values that stay the same for a connection, are one run where they follow each other. A connection escapes a
/// run at its first line (`ConnectionFacts`), and copies it into every other line.
final class LogLine {
  struct Step {
    /// Text that comes first.
    var text: ByteRange
    var value: Value
  }

  enum Value {
    case nothing
    /// An index into `runs`.
    case run(Int)
    /// Of the request, and never to be escaped (`CompiledTemplate.Step.plain`).
    case plain(SimpleVariable)
    case other(CompiledTemplate.Step)
  }

  let format: CompiledTemplate
  let escaping: LogEscaping
  let steps: [Step]
  /// Each has text and values of the connection only.
  private let runs: [[CompiledTemplate.Step]]

  init(_ format: Template, _ escaping: LogEscaping) {
    let format = format.compiled
    var steps: [Step] = []
    var runs: [[CompiledTemplate.Step]] = []
    let none = ByteRange(start: 0, count: 0)
    var text = none
    for step in format.steps {
      if case .run? = steps.last?.value {
        switch step {
        case .literal, .connection:
          runs[runs.count - 1].append(step)
          continue
        case .client, .simple, .plain, .feature, .other: break
        }
      }
      switch step {
      case .literal(let literal):
        if text.count > 0 { steps.append(Step(text: text, value: .nothing)) }
        text = literal
      case .connection:
        steps.append(Step(text: none, value: .run(runs.count)))
        runs.append([.literal(text), step])
        text = none
      case .plain(let variable):
        steps.append(Step(text: text, value: .plain(variable)))
        text = none
      case .client, .simple, .feature, .other:
        steps.append(Step(text: text, value: .other(step)))
        text = none
      }
    }
    if text.count > 0 { steps.append(Step(text: text, value: .nothing)) }
    self.format = format
    self.escaping = escaping
    self.steps = steps
    self.runs = runs
  }

  var runCount: Int { runs.count }

  /// Appends a run as it stands in a line.
  func append(run: Int, of facts: ConnectionFacts, to line: inout ByteBuffer) {
    for step in runs[run] {
      switch step {
      case .connection(let variable, let place):
        let start = line.count
        finish(start, in: &line, isPlain: facts.append(variable, place: place, to: &line))
      case .literal(let text): format.append(text, to: &line)
      case .client, .simple, .plain, .feature, .other: break
      }
    }
  }

  /// Escapes the value of a variable, which stands in `line` from `start` on. An empty value becomes `-` by nginx's
  /// default escaping. A value is copied and written again only if one of its bytes must be escaped.
  @inline(__always)
  func finish(_ start: Int, in line: inout ByteBuffer, isPlain: Bool) {
    if line.count == start {
      if case .default = escaping { line.append(0x2D) }
    } else if !isPlain {
      let value = UnsafeRawBufferPointer(rebasing: line.readable[start...])
      switch escaping {
      case .default: if !LogEscape.isPlain(value) { escape(start, in: &line) }
      case .json: if !LogEscape.isPlainJSON(value) { escape(start, in: &line) }
      case .none: break
      }
    }
  }

  @inline(never)
  private func escape(_ start: Int, in line: inout ByteBuffer) {
    var value = ByteBuffer()
    value.append(UnsafeRawBufferPointer(rebasing: line.readable[start...]))
    line.truncate(to: start)
    if case .json = escaping { LogEscape.json(value.readable, &line) } else { LogEscape.default(value.readable, &line) }
  }
}

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

  /// Calls `body` with the name for an exchange, or tells of a name that would leave the folder. Then the line is in the
  /// error log only: a client must not choose a file outside.
  func use(_ exchange: Exchange, _ body: (UnsafeRawBufferPointer) -> Void) {
    text.removeAll()
    var isAdmitted = true
    for part in parts {
      let start = text.count
      part.append(exchange, to: &text)
      if part.constant == nil {
        isAdmitted = isAdmitted && LogFileName.admits(UnsafeRawBufferPointer(rebasing: text.readable[start...]))
      }
    }
    guard isAdmitted, LogFileName.isBelow(text.readable) else {
      return exchange.log(
        .error, "the name of an access log would leave its folder: \"\(LogEscape.text(Array(text.readable)))\"")
    }
    body(text.readable)
  }
}

/// Every access log of a generation in one worker.
final class LiveAccessLogs {
  private let writers: [AccessLogDestination: AccessLogWriter]
  private var made: [AccessLogSettings: LiveAccessLog] = [:]

  init(_ writers: [AccessLogDestination: AccessLogWriter]) { self.writers = writers }

  /// nil: no log is open for the settings.
  func log(for settings: AccessLogSettings) -> LiveAccessLog? {
    if let log = made[settings] { return log }
    let log = writers[settings.destination].map { LiveAccessLog(settings, $0) }
    made[settings] = log
    return log
  }
}
