import Bytes
import HTTP
import Observability
import Traffic
import Transport
import Upstream

/// Builds the response for the client from the upstream's parsed head.
enum ResponseRewrite {
  /// Builds the head. `own`: the size of the body that follows in place of the upstream's; nil: the upstream's follows. It
  /// sends nothing.
  static func build(
    _ outgoing: OutgoingResponseHead, of exchange: Exchange, _ response: ResponseHead, _ pass: CompiledPass,
    own: Int? = nil
  ) {
    outgoing.reset(over: response)
    outgoing.status = status(for: exchange, response)
    pass.obey(response, exchange)
    outgoing.body = own.map { .length(UInt64($0)) } ?? body(for: exchange, outgoing.status, response, pass)
    // nginx forwards a Server that `proxy_pass_header` names, or none. A response needs a Date (RFC 9110 §6.6.1).
    let passed = (!pass.hidden.contains(.server), passesDate(response, pass)), tokens = pass.serverTokens
    borrowing(exchange.worker.ownFields) { fields in
      switch passed {
      case (false, false): fields.add(tokens: tokens, to: outgoing)
      case (false, true): fields.addServer(tokens: tokens, to: outgoing)
      case (true, false): fields.addDate(to: outgoing)
      case (true, true): break
      }
    }
    // The response to HEAD has the fields that GET would have.
    let ownType = (own ?? (exchange.head.method == .head ? 1 : 0)) > 0 ? pass.ownBodies?.type : nil
    addFields(to: outgoing, of: exchange, response, pass, ownType: ownType)
    if let own = exchange.progress.ownFields { outgoing.add(own) }
    exchange.internalRequests.addCarried(to: outgoing, except: response.present)
    exchange.changeHead()
    // A 426 says which protocol the client needs (RFC 9110 §15.5.22). HTTP/2 has no such field.
    if response.status == 101 || response.status == 426 && exchange.head.version != .http2,
      let upgrade = response.upgrade
    {
      _ = outgoing.add("Upgrade", response.bytes.readable[upgrade])
    }
  }

  /// Fails an exchange whose CONNECT for a WebSocket is answered without opening one: a client would take the 2xx for the
  /// beginning of its WebSocket (RFC 8441 §5). Returns whether it has.
  static func failUnopened(_ response: ResponseHead, _ exchange: Exchange) -> Bool {
    guard exchange.head.isExtendedConnect, (200..<300).contains(response.status) else { return false }
    exchange.log(.error, "upstream answered a WebSocket's CONNECT with \(response.status) in place of 101")
    exchange.fail(ErrorResponse(502))
    return true
  }

  /// `proxy_intercept_errors`: shows the page that `error_page` has for the upstream's status. Returns whether it has.
  static func intercepts(_ response: ResponseHead, _ exchange: Exchange, _ pass: CompiledPass) -> Bool {
    guard pass.settings.response.interceptsErrors, response.status >= 300,
      exchange.errorAnswer(to: Int(response.status)) != nil
    else { return false }
    if response.status == 401 { exchange.keepChallenges(of: response) }
    exchange.fail(ErrorResponse(Int(response.status)))
    return true
  }

  /// The upstream's status, unless `error_page … =CODE` replaces it.
  static func status(for exchange: Exchange, _ response: ResponseHead) -> UInt16 {
    exchange.progress.statusOverride.map { UInt16(truncatingIfNeeded: $0) } ?? response.status
  }

  /// Whether the client's response has a body, even an empty one.
  static func mayHaveBody(_ exchange: Exchange, _ response: ResponseHead) -> Bool {
    mayHaveBody(exchange, status(for: exchange, response))
  }

  // The client's method and the final status decide, whatever the upstream got (proxy_method, error_page =204). A
  // client would take an unexpected body for the next response.
  private static func mayHaveBody(_ exchange: Exchange, _ status: UInt16) -> Bool {
    exchange.head.method != .head && status >= 200 && status != 204 && status != 304
  }

  /// The body to announce: its length if that is known; for HEAD and 304, the length that GET would have.
  private static func body(
    for exchange: Exchange, _ status: UInt16, _ response: ResponseHead, _ pass: CompiledPass
  ) -> OutgoingBody {
    if mayHaveBody(exchange, status) {
      return switch response.framing {
      case .none: .length(0)
      case .length(let length): .length(length)
      case .chunked, .untilClose: .stream
      }
    }
    let isAnnounced = status >= 200 && status != 204 && pass.ownBodies == nil
    return .none(announced: isAnnounced ? response.announcedLength : nil)
  }

  private static func addFields(
    to outgoing: OutgoingResponseHead, of exchange: Exchange, _ response: ResponseHead, _ pass: CompiledPass,
    ownType: StaticString?
  ) {
    let bytes = response.bytes.readable
    if let ownType { outgoing.add("Content-Type", ownType) }
    // Mostly a response has none of the fields that need more than a look at their names.
    var watched = pass.rewrittenFields
    if ownType != nil { watched.insert(.contentType) }
    if !response.repeated.isEmpty { watched = watched.union(response.repeated.intersection(.singleInResponse)) }
    var seen = FieldNameSet()
    // A WebSocket over HTTP/2 has no such field (RFC 8441 §5): the upstream has answered a key that the client never sent.
    let leavesAccept = exchange.head.isExtendedConnect
    for field in response.fields {
      if leavesAccept, bytes[field.name].text.lowercased() == "sec-websocket-accept" { continue }
      if field.isHopByHop || skipped.contains(field.id) || pass.hidden.contains(field, in: bytes) { continue }
      if watched.contains(field.id) {
        let isSecond = seen.contains(field.id) && FieldNameSet.singleInResponse.contains(field.id)
        seen.insert(field.id)
        if isSecond || ownType != nil && field.id == .contentType { continue }
        if addRewritten(field, bytes, exchange, pass, to: outgoing) { continue }
      }
      outgoing.forward(field)
    }
  }

  /// Adds a field as a feature changes it. Returns whether one does.
  @inline(never)
  private static func addRewritten(
    _ field: Field, _ bytes: UnsafeRawBufferPointer, _ exchange: Exchange, _ pass: CompiledPass,
    to outgoing: OutgoingResponseHead
  ) -> Bool {
    guard let value = pass.rewritten(field, in: bytes, exchange) else { return false }
    return value.withUnsafeBytes { outgoing.add(bytes[field.name], $0) }
  }

  /// Whether the upstream's own Date replaces sallyport's (`proxy_pass_header`).
  private static func passesDate(_ response: ResponseHead, _ pass: CompiledPass) -> Bool {
    !pass.hidden.contains(.date) && response.fields.first(.date) != nil
  }

  /// sallyport frames the body itself.
  private static let skipped = FieldNameSet(.contentLength, .transferEncoding)
}
