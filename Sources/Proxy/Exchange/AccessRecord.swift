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
      log.writer.append(worker.scratch.readable)
    }
  }

  /// Appends one line. Values are escaped, the format's own text is not; an absent value is `-`.
  private static func appendLine(_ log: LiveAccessLog, _ exchange: Exchange, to line: inout ByteBuffer) {
    var value = ByteBuffer()
    for step in log.format.steps {
      if case .literal = step {
        log.format.append(step, exchange, to: &line)
        continue
      }
      value.removeAll()
      log.format.append(step, exchange, to: &value)
      switch log.escape {
      case .default:
        if value.isEmpty { line.append(0x2D) } else { LogEscape.default(value.readable, &line) }
      case .json: LogEscape.json(value.readable, &line)
      case .none: LogEscape.none(value.readable, &line)
      }
    }
  }
}
