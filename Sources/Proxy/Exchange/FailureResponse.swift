import Bytes
import HTTP
import Transport
import Observability

/// Fields of ours that every response has, unless the upstream's own are passed on.
enum OwnFields {
  private static let name = FieldBlock("Server", Product.name)
  private static let nameAndVersion = FieldBlock("Server", Product.nameAndVersion)

  /// `tokens`: `server_tokens`.
  static func server(tokens: Bool) -> FieldBlock { tokens ? nameAndVersion : name }

  static func addDate(_ clock: ClockText, to outgoing: OutgoingResponseHead) {
    clock.update()
    _ = outgoing.add("Date", clock.httpDate)
  }
}

/// The proxy's own pages, in nginx's form.
enum FailureResponse {
  /// A plain HTTP request on a TLS port (nginx's 497): answered in plain text, since there is no session.
  static func answerPlainRequest(on stream: ByteStream, _ server: LiveServer, _ worker: Worker) {
    let tokens = server.root.settings.redirects.serverTokens
    var page = ByteBuffer()
    writePage(.plainRequestOnTLSPort, tokens: tokens, to: &page)
    let head = OutgoingResponseHead()
    head.status = Failure.plainRequestOnTLSPort.status
    head.add(OwnFields.server(tokens: tokens))
    OwnFields.addDate(worker.clock, to: head)
    head.add("Content-Type", "text/html")
    head.body = .length(UInt64(page.count))
    head.framing = .length(UInt64(page.count))
    worker.scratch.removeAll()
    HTTP1Encoder.response(head, to: &worker.scratch)
    worker.scratch.append(page.readable)
    stream.transmitLater(worker.scratch.readable)
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
