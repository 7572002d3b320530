import Bytes
import HTTP
import Observability
import Traffic
import Upstream

/// X-Accel-Redirect: an upstream names the path, or the `@location`, of this server block that answers in its place
/// (nginx: `ngx_http_upstream_process_headers`).
enum AccelRedirect {
  /// The fields of the upstream's response that the client gets with the other response, as in nginx.
  private static let kept = FieldNameSet(
    .contentType, .setCookie, .contentDisposition, .cacheControl, .expires, .acceptRanges)

  /// Continues the exchange elsewhere. Returns false if the response has no such field, or if it is ignored.
  static func follow(
    _ response: ResponseHead, _ exchange: Exchange, _ pass: CompiledPass, _ attempt: UpstreamAttempt
  ) -> Bool {
    guard !pass.settings.response.ignoredFields.contains(.redirect), let field = response.first(.xAccelRedirect) else {
      return false
    }
    // The status of this response is the answer to `auth_request`, and no other response may take its place.
    if exchange.stream?.isSubrequest == true { return false }
    let text = Array(response.bytes.readable[field.value])
    pass.obey(response, exchange)
    keepFields(of: response, exchange, pass)
    attempt.abandonForRedirect()
    if text.first == 0x40 {
      redirect(exchange, toNamed: String(decoding: text.dropFirst(), as: UTF8.self))
    } else if let target = AccelTarget(text, mergeSlashes: exchange.server.settings.head.mergesSlashes) {
      exchange.prepareRedirect(.path)
      exchange.redirect(toPath: target.path, .these(target.arguments))
    } else {
      exchange.log(.error, "unsafe URI \"\(LogEscape.text(text))\" was detected in X-Accel-Redirect")
      exchange.fail(ErrorResponse(404))
    }
    return true
  }

  private static func keepFields(of response: ResponseHead, _ exchange: Exchange, _ pass: CompiledPass) {
    let bytes = response.bytes.readable
    for field in response.fields where kept.contains(field.id) && !pass.hidden.contains(field, in: bytes) {
      let rewritten = pass.rewritten(field, in: bytes, exchange)
      exchange.internalRequests.carry(
        .init(id: field.id, name: Array(bytes[field.name]), value: rewritten ?? Array(bytes[field.value])))
    }
  }

  /// As in nginx, a named location gets the request with its method; the body, if it can be sent again.
  private static func redirect(_ exchange: Exchange, toNamed name: String) {
    guard let found = exchange.server.locations.named(name) else {
      exchange.log(.error, "could not find named location \"\(name)\"")
      return exchange.fail(ErrorResponse(500))
    }
    exchange.prepareRedirect(redirection(of: exchange, to: found))
    exchange.redirect(toNamed: found)
  }

  private static func redirection(of exchange: Exchange, to found: LiveLocation) -> Redirection {
    guard exchange.redirection.keepsBody else { return .bodiless }
    switch exchange.body.state {
    case .collected(let kept): return found.content.takes(kept) ? .whole : .bodiless
    case .none, .held: return .whole
    case .collecting, .streaming, .streamed: return .bodiless
    }
  }
}

/// The target of an X-Accel-Redirect: a decoded path and a query. nil for a text that nginx calls unsafe, and for one that
/// is no path.
struct AccelTarget: Equatable {
  var path: [UInt8]
  var arguments: [UInt8]

  /// The path is normalized as a client's path is: two spellings of a path are one location.
  init?(_ text: [UInt8], mergeSlashes: Bool) {
    let parts = text.split(separator: 0x3F, maxSplits: 1, omittingEmptySubsequences: false)
    guard let path = parts.first.flatMap({ Self.decoded($0) }), path.first == 0x2F, !Self.climbs(path) else {
      return nil
    }
    var normal = ByteBuffer()
    var escaped = ByteBuffer()
    path.withUnsafeBytes { TargetPath.escape($0, into: &escaped) }
    guard TargetPath.normalize(path: escaped.readable, mergeSlashes: mergeSlashes, into: &normal) else { return nil }
    self.path = Array(normal.readable)
    arguments = parts.count > 1 ? Array(parts[1]) : []
  }

  /// nil for a NUL, an escape that isn't one, and a control character.
  private static func decoded(_ text: ArraySlice<UInt8>) -> [UInt8]? {
    var path: [UInt8] = []
    var rest = text
    while let byte = rest.popFirst() {
      var decoded = byte
      if byte == 0x25 {
        guard let high = rest.popFirst().flatMap(ASCII.hexValue), let low = rest.popFirst().flatMap(ASCII.hexValue)
        else { return nil }
        decoded = high << 4 | low
      }
      guard decoded >= 0x20, decoded != 0x7F else { return nil }
      path.append(decoded)
    }
    return path
  }

  private static func climbs(_ path: [UInt8]) -> Bool { path.split(separator: 0x2F).contains([0x2E, 0x2E]) }
}
