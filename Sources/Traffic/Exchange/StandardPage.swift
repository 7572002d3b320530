import Bytes
import HTTP
import Observability

/// The proxy's own pages, in nginx's form.
enum StandardPage {
  static func writePage(_ failure: ErrorResponse, tokens: Bool, to page: inout ByteBuffer) {
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
