import Bytes
import HTTP
import Transport
import Observability

/// The proxy's own pages, in nginx's form, and the head of every answer of our own.
enum FailureResponse {
  /// A plain HTTP request on a TLS port (nginx's 497): answered in plain text, since there is no session.
  static func answerPlainRequest(on stream: ByteStream, _ server: LiveServer, _ worker: Worker) {
    worker.scratch.removeAll()
    write(.plainRequestOnTLSPort, persists: false, head: nil, server: server, worker: worker, to: &worker.scratch)
    stream.transmitLater(worker.scratch.readable)
  }

  /// Head and page. `head`: of the request, when there is one; HEAD gets no page.
  static func write(
    _ failure: Failure, persists: Bool, head: RequestHead?, server: LiveServer, worker: Worker,
    to output: inout ByteBuffer
  ) {
    var page = ByteBuffer()
    writePage(failure, tokens: server.root.settings.redirects.serverTokens, to: &page)
    HeadWriter.statusLine(failure.status, to: &output)
    writeCommon(tokens: server.root.settings.redirects.serverTokens, worker.clock, to: &output)
    HeadWriter.field("Content-Type", "text/html", to: &output)
    HeadWriter.field("Content-Length", decimal: UInt64(page.count), to: &output)
    HeadWriter.field("Connection", persists ? "keep-alive" : "close", to: &output)
    HeadWriter.end(to: &output)
    if head?.method != .head { output.append(page.readable) }
  }

  /// Server and Date.
  static func writeCommon(tokens: Bool, _ clock: ClockText, to output: inout ByteBuffer) {
    writeServer(tokens: tokens, to: &output)
    writeDate(clock, to: &output)
  }

  static func writeServer(tokens: Bool, to output: inout ByteBuffer) {
    HeadWriter.field("Server", tokens ? Product.nameAndVersion : Product.name, to: &output)
  }

  static func writeDate(_ clock: ClockText, to output: inout ByteBuffer) {
    clock.update()
    output.append(clock.dateLine)
  }

  static func writePage(_ failure: Failure, tokens: Bool, to page: inout ByteBuffer) {
    func status() {
      page.append(decimal: UInt64(failure.status))
      page.append(" ")
      page.append(StatusText.reason(failure.status))
    }
    page.append("<html>\r\n<head><title>")
    if let detail = failure.detail {
      page.append("400 ")
      page.append(detail)
    } else {
      status()
    }
    page.append("</title></head>\r\n<body>\r\n<center><h1>")
    status()
    page.append("</h1></center>\r\n")
    if let detail = failure.detail {
      page.append("<center>")
      page.append(detail)
      page.append("</center>\r\n")
    }
    page.append("<hr><center>")
    page.append(tokens ? Product.nameAndVersion : Product.name)
    page.append("</center>\r\n</body>\r\n</html>\r\n")
  }
}
