import Bytes
import Files
import Forward
import HTTP
import Observability
import Traffic

/// Builds the head of a response from a file: conditions, ranges and the fields that describe the file, in the order of
/// nginx's filters.
struct FileResponse {
  private let files: LiveFiles
  private let facts: FileFacts
  private let exchange: Exchange
  private let found: FileChoice.Found
  private let etag: [UInt8]?
  private let conditions: Preconditions

  init(_ files: LiveFiles, _ facts: FileFacts, _ exchange: Exchange, _ found: FileChoice.Found) {
    self.files = files
    self.found = found
    self.facts = facts
    self.exchange = exchange
    etag = files.settings.sendsETag ? Self.etag(of: facts) : nil
    conditions = Preconditions(etag: etag, modified: facts.modified, comparison: files.settings.comparison)
  }

  /// nginx's: the time and the size in hexadecimal digits.
  static func etag(of facts: FileFacts) -> [UInt8] {
    Array("\"\(String(facts.modified, radix: 16))-\(String(facts.size, radix: 16))\"".utf8)
  }

  /// Builds the head, and returns the body to send after it. nil: the exchange has responded otherwise.
  func begin() -> FileBody? {
    var status = UInt16(clamping: exchange.progress.statusOverride ?? 200)
    if status == 200 {
      switch conditions.judge(exchange.head) {
      case .proceed: break
      case .notModified: status = 304
      case .failed:
        exchange.fail(ErrorResponse(412))
        return nil
      }
    }
    if let stream = exchange.stream, !stream.isBodyRead { stream.discardBody() }
    let type = exchange.location.types.type(of: exchange.target.uri.readable)
    build(status)
    let body = FileBody(facts.size > 0 ? [.file(0..<facts.size)] : [])
    // As in nginx, a file in another's place has no ranges.
    guard status == 200, !found.isOther else { return hasBody(status) ? body : FileBody() }
    if exchange.location.filters.contains(where: { $0.changesBytes(ofFile: exchange) }) { return body }
    return ranges(type, body)
  }

  private func hasBody(_ status: UInt16) -> Bool {
    FileRequest.method(exchange) != .head && status >= 200 && status != 204 && status != 304
  }

  private func build(_ status: UInt16) {
    // Fields of `add_header` can contain `$status`.
    exchange.setStatus(Int(status))
    let outgoing = exchange.response
    outgoing.reset()
    outgoing.status = status
    exchange.worker.ownFields.add(tokens: exchange.location.settings.redirects.serverTokens, to: outgoing)
    if status != 204 && status != 304 {
      exchange.location.types.add(to: outgoing, for: exchange)
      outgoing.body = hasBody(status) ? .length(facts.size) : .none(announced: facts.size)
    }
    if status == 200 || status == 304 {
      files.clock.update(seconds: facts.modified, milliseconds: 0)
      _ = outgoing.add("Last-Modified", files.clock.httpDate)
    }
    if let etag { etag.withUnsafeBytes { _ = outgoing.add("ETag", $0) } }
    if let variant = files.hooks.variant, found.isThere {
      if found.isOther, status != 304 { outgoing.add("Content-Encoding", variant.coding) }
      variant.tell(exchange)
    }
    if let own = exchange.progress.ownFields { outgoing.add(own) }
    exchange.changeHead()
  }

  /// Changes the response to the ranges that the request asks for.
  private func ranges(_ type: [UInt8], _ whole: FileBody) -> FileBody? {
    let limit = files.settings.maxRanges
    guard limit > 0 else { return hasBody(200) ? whole : FileBody() }
    let outgoing = exchange.response
    guard let field = exchange.head.first(.range), Preconditions.allowsRange(exchange.head, of: outgoing) else {
      outgoing.add("Accept-Ranges", "bytes")
      return hasBody(200) ? whole : FileBody()
    }
    switch RangeRequest(exchange.head.bytes.readable[field.value], length: facts.size, limit: limit) {
    case .whole:
      outgoing.add("Accept-Ranges", "bytes")
      return hasBody(200) ? whole : FileBody()
    case .unsatisfiable:
      Array("bytes */\(facts.size)".utf8).withUnsafeBytes { exchange.setOwnField("Content-Range", $0) }
      exchange.fail(ErrorResponse(416))
      return nil
    case .parts(let parts):
      for filter in exchange.location.filters { filter.beginRange(exchange) }
      outgoing.status = 206
      exchange.setStatus(206)
      if let part = parts.first, parts.count == 1 {
        Array(FileBody.contentRange(part, of: facts.size).utf8).withUnsafeBytes {
          _ = outgoing.add("Content-Range", $0)
        }
        return announced(FileBody([.file(part)]))
      }
      let boundary = Self.boundary()
      outgoing.remove("Content-Type")
      Array("multipart/byteranges; boundary=\(boundary)".utf8).withUnsafeBytes {
        _ = outgoing.add("Content-Type", $0)
      }
      return announced(FileBody.multipart(parts, of: facts.size, type: type, boundary: boundary))
    }
  }

  private func announced(_ body: FileBody) -> FileBody {
    switch exchange.response.body {
    case .none: exchange.response.body = .none(announced: body.length)
    case .length: exchange.response.body = .length(body.length)
    // `add_trailer`
    case .stream: break
    }
    return hasBody(206) ? body : FileBody()
  }

  /// Twenty digits that the file's author can't know.
  private static func boundary() -> String {
    let digits = String(UInt64.random(in: 0...UInt64.max))
    return String(repeating: "0", count: max(0, 20 - digits.utf8.count)) + digits
  }
}
