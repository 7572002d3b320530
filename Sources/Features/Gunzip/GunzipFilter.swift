import Compression
import HTTP
import Observability
import Traffic

/// `gunzip on` of a location in one worker: decides which responses are decompressed, as nginx's gunzip module does, and
/// begins that.
final class GunzipFilter: ResponseFilter {
  private let settings: Gunzip

  init(_ settings: Gunzip) { self.settings = settings }

  override func begin(_ exchange: Exchange) {
    guard isOfKind(exchange) else { return }
    let outgoing = exchange.response
    settings.clients.addVary(to: outgoing)
    guard isFor(exchange) else { return }
    switch outgoing.body {
    // To HEAD: what the response to GET would say.
    case .none: outgoing.body = .none(announced: nil)
    case .length, .stream:
      guard let stream = GunzipStream() else { return exchange.log(.alert, "zlib failed") }
      outgoing.body = .stream
      exchange.append(ResponseDecompressor(exchange, stream))
    }
    outgoing.becomeRecoded()
    outgoing.remove("Content-Encoding")
  }

  /// As in nginx, a decompressed response has no ranges.
  override func changesBytes(ofFile exchange: Exchange) -> Bool { isOfKind(exchange) && isFor(exchange) }

  /// A whole response that is compressed once, by gzip. A part of one can't be decompressed: nginx tries, and breaks it off.
  private func isOfKind(_ exchange: Exchange) -> Bool {
    let outgoing = exchange.response
    if outgoing.status == 206 || exchange.handler?.isCompressible == false { return false }
    return outgoing.text(of: "content_encoding").map { $0 | 0x20 } == Array("gzip".utf8)
  }

  private func isFor(_ exchange: Exchange) -> Bool {
    let isFile = exchange.handler?.mayReflect == false
    if settings.clients.accept(exchange, isFile: isFile) { return false }
    return isFile || !exchange.response.forbidsTransformation
  }
}
