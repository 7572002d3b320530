import Bytes
import HTTP
import Observability

/// The lines of the access logs of a location, written once for every exchange that ends there.
final class AccessLogStep: LogStep {
  private let logs: [LiveAccessLog]

  init(_ logs: [LiveAccessLog]) { self.logs = logs }

  override func run(_ exchange: Exchange) {
    for index in logs.indices { borrowing(logs[index]) { write($0, exchange) } }
  }

  private func write(_ log: LiveAccessLog, _ exchange: Exchange) {
    if let condition = log.condition {
      let value = condition.bytes(exchange)
      if value.isEmpty || value == [0x30] { return }
    }
    let worker = exchange.worker
    worker.scratch.removeAll()
    borrowing(log.line) { append($0, exchange, to: &worker.scratch) }
    if let journal = log.journal {
      journal.record.write(worker.scratch.readable, of: exchange, to: journal.socket)
    } else if let name = log.name {
      name.use(exchange) { log.writer.append(worker.scratch.readable, to: $0) }
    } else {
      borrowing(log.writer) { $0.append(worker.scratch.readable) }
    }
  }

  private func append(_ line: LogLine, _ exchange: Exchange, to output: inout ByteBuffer) {
    for step in line.steps {
      line.format.append(step.text, to: &output)
      let start = output.count
      switch step.value {
      case .nothing: break
      case .run(let run): borrowing(exchange.facts) { $0.append(run: run, of: line, to: &output) }
      case .plain(let variable):
        exchange.append(ofRequest: variable, to: &output)
        if variable == .status, exchange.progress.statusSoFar == 0, case .json = line.escaping {
          mendNumber(start, in: &output)
        }
        line.finish(start, in: &output, isPlain: true)
      case .other(let step):
        line.format.append(step, exchange, to: &output)
        line.finish(start, in: &output, isPlain: false)
      }
    }
  }

  /// Writes the status 000 as 0 where no quotation mark stands before it, because JSON has no leading zeros.
  private func mendNumber(_ start: Int, in line: inout ByteBuffer) {
    guard start > 0, line.readable[start - 1] != 0x22 else { return }
    line.truncate(to: start)
    line.append(0x30)
  }
}
