import Files
import HTTP
import Observability
import Traffic
import Transport

/// What the parts of file serving share.
enum FileRequest {
  /// The method, as an error page has it: a GET, unless the client asked by HEAD.
  static func method(_ exchange: Exchange) -> Method {
    exchange.redirection.keepsBody || exchange.head.method == .head ? exchange.head.method : .get
  }

  /// Does `work` on a pool thread, and then goes on, unless the exchange has ended meanwhile.
  static func run<Value: Sendable>(
    _ exchange: Exchange, _ work: @escaping @Sendable () -> Value, _ then: @escaping (Exchange, Value) -> Void
  ) {
    PendingWork.run(.files, for: exchange, work, then)
  }

  /// Responds to a request whose file can't be opened, with nginx's statuses.
  static func fail(_ exchange: Exchange, _ path: ServedPath, _ fault: FileFault, tellsAbsence: Bool) {
    if fault.isAbsence {
      if tellsAbsence { exchange.log(.error, fault.description(of: LogEscape.text(path.text))) }
      return exchange.fail(ErrorResponse(404))
    }
    tell(of: fault, at: path, exchange)
    exchange.fail(ErrorResponse(fault.isRefusal ? 403 : 500))
  }

  /// Says in the error log why a file that is there can't be opened.
  static func tell(of fault: FileFault, at path: ServedPath, _ exchange: Exchange) {
    let text = fault.description(of: LogEscape.text(path.text))
    if fault.isRefusal { exchange.log(.error, text) } else { exchange.tellOfRepeated(.crit, text) }
  }
}
