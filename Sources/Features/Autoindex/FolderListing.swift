import Bytes
import Files
import HTTP
import Observability
import Traffic

/// `autoindex on` of a location in one worker. A thread of the pool reads the folder and makes the whole page.
final class FolderListing: FolderContent {
  private let settings: Autoindex

  init(_ settings: Autoindex) { self.settings = settings }

  override func begin(_ request: Request, _ exchange: Exchange, else next: @escaping (Exchange) -> Void) {
    let method = FileRequest.method(exchange)
    guard method == .get || method == .head else { return next(exchange) }
    var page = ListingPage(settings, request.uri)
    if settings.format == .jsonp {
      var name = ByteBuffer()
      exchange.append(.argument(Array("callback".utf8)), to: &name)
      guard ListingPage.isFunction(name.readable) else {
        exchange.log(.info, "client sent an invalid callback name: \"\(LogEscape.text(Array(name.readable)))\"")
        return exchange.fail(ErrorResponse(400))
      }
      page.callback = Array(name.readable)
    }
    let folder = request.path
    FileRequest.run(exchange, { [page] in ServedFolder.list(folder).map { page.text($0) } }) { exchange, result in
      switch result {
      case .failure(let fault): FileRequest.fail(exchange, folder, fault, tellsAbsence: request.tellsAbsence)
      case .success(let text): Self.send(text, page, exchange)
      }
    }
  }

  private static func send(_ text: [UInt8], _ page: ListingPage, _ exchange: Exchange) {
    // The page waits for the client as a whole.
    guard exchange.worker.responses.admits(UInt64(text.count), having: 0) else {
      exchange.tellOfRepeated(.error, "the lists of folders that wait for clients take too much memory")
      return exchange.refuse(503, retryAfter: 1)
    }
    text.withUnsafeBytes { exchange.answer(status: 200, type: page.type, body: $0) }
  }
}
