import Bytes
package import HTTP

/// The client of an explained request: without a body, and with a response that goes into the trace.
package final class RehearsedStream: ClientStream {
  private let trace: ExplainTrace
  /// nil until the exchange responds.
  private(set) var status: UInt16?
  private(set) var isOver = false

  init(_ session: ClientSession, _ trace: ExplainTrace) {
    self.trace = trace
    super.init(session)
  }

  package override func resumeBody() { exchange?.requestBodyDidEnd(trailers: nil) }
  package override var takesTrailers: Bool { true }

  package override func send(head: OutgoingResponseHead) {
    if let exchange { trace.enter(exchange) }
    status = head.status
    var text = ByteBuffer()
    head.framing =
      switch head.body {
      case .none: .none
      case .length(let length): .length(length)
      case .stream: .chunked
      }
    HTTP1Encoder.response(head, to: &text)
    let lines = text.readable.text.split(separator: "\r\n", omittingEmptySubsequences: true)
    trace.add("status", "\(head.status)", .status(head.status))
    for line in lines.dropFirst() where !Self.isUsual(line) { trace.add("  field", String(line)) }
  }

  /// Fields that each response has, which say nothing of the configuration.
  private static func isUsual(_ line: Substring) -> Bool {
    ["Date:", "Connection:", "Content-Length:", "Transfer-Encoding:", "Server:", "Content-Type: \r"].contains {
      line.hasPrefix($0)
    } || line == "Content-Type: "
  }

  package override func release() {
    isOver = true
    exchange = nil
  }

  package override func cut(_ reason: EndReason) {
    isOver = true
    if case .silent = reason { trace.add("status", "444: the connection is closed without a response", .status(444)) }
    exchange = nil
  }
}
