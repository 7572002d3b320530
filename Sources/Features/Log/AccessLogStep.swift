import Bytes
import Forward
import HTTP
import Observability
import Traffic

/// The lines of the access logs of a location, written once for every exchange that ends there.
final class AccessLogStep: LogStep {
  private let logs: [LiveAccessLog]

  init(_ logs: [LiveAccessLog]) { self.logs = logs }

  override func run(_ exchange: Exchange) {
    for index in logs.indices { borrowing(logs[index]) { write($0, exchange) { $0.append(exchange, to: &$1) } } }
  }

  override func run(_ session: StreamSession) {
    for log in logs { write(log, session) { $0.append(session, to: &$1) } }
  }

  @inline(__always)
  private func write(
    _ log: LiveAccessLog, _ transaction: Transaction, _ append: (LogLine, inout ByteBuffer) -> Void
  ) {
    if let condition = log.condition {
      let value = condition.bytes(transaction)
      if value.isEmpty || value == [0x30] { return }
    }
    let worker = transaction.worker
    worker.scratch.removeAll()
    borrowing(log.line) { append($0, &worker.scratch) }
    if let journal = log.journal {
      journal.record.write(worker.scratch.readable, of: transaction, to: journal.socket)
    } else if let name = log.name {
      name.use(transaction) { log.writer.append(worker.scratch.readable, to: $0) }
    } else {
      borrowing(log.writer) { $0.append(worker.scratch.readable) }
    }
  }
}
