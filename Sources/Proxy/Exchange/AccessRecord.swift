import Bytes
import HTTP
import Observability

/// The lines of the access log, written once for every exchange.
enum AccessRecord {
  static func write(_ exchange: Exchange) {
    let logs = exchange.location.accessLogs
    guard !logs.isEmpty else { return }
    exchange.setOver()
    for log in logs {
      if let condition = log.condition {
        let value = condition.bytes(exchange)
        if value.isEmpty || value == [0x30] { continue }
      }
      let worker = exchange.worker
      worker.scratch.removeAll()
      appendLine(log, exchange, to: &worker.scratch)
      if let journal = log.journal {
        journal.record.write(worker.scratch.readable, of: exchange, to: journal.socket)
      } else {
        log.writer.append(worker.scratch.readable)
      }
    }
  }

  /// Appends one line. Values are escaped, the format's own text is not; an absent value is `-`.
  ///
  /// A value goes into the line as it is. Only if a byte of it must be escaped, it is copied and written again.
  private static func appendLine(_ log: LiveAccessLog, _ exchange: Exchange, to line: inout ByteBuffer) {
    let format = log.format, escaping = log.escape
    for step in format.steps {
      let start = line.count
      var isPlain = false
      switch step {
      case .literal:
        format.append(step, exchange, to: &line)
        continue
      case .connection(let variable, let place): isPlain = exchange.facts.append(variable, place: place, to: &line)
      case .plain(let variable):
        exchange.append(ofRequest: variable, to: &line)
        isPlain = true
        if variable == .status, exchange.progress.status == 0, case .json = escaping { mendNumber(start, in: &line) }
      case .client, .simple, .other: format.append(step, exchange, to: &line)
      }
      if line.count == start {
        if case .default = escaping { line.append(0x2D) }
        continue
      }
      if isPlain { continue }
      let value = UnsafeRawBufferPointer(rebasing: line.readable[start...])
      switch escaping {
      case .default: if !LogEscape.isPlain(value) { escape(start, in: &line, .default) }
      case .json: if !LogEscape.isPlainJSON(value) { escape(start, in: &line, .json) }
      case .none: break
      }
    }
  }

  @inline(never)
  private static func escape(_ start: Int, in line: inout ByteBuffer, _ escaping: LogEscaping) {
    var value = ByteBuffer()
    value.append(UnsafeRawBufferPointer(rebasing: line.readable[start...]))
    line.truncate(to: start)
    if case .json = escaping { LogEscape.json(value.readable, &line) } else { LogEscape.default(value.readable, &line) }
  }

  /// Writes the status 000 as 0 where no quotation mark stands before it, because JSON has no leading zeros.
  private static func mendNumber(_ start: Int, in line: inout ByteBuffer) {
    guard start > 0, line.readable[start - 1] != 0x22 else { return }
    line.truncate(to: start)
    line.append(0x30)
  }
}
