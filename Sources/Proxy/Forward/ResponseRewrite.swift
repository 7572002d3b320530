import Bytes
import HTTP
import Observability
import Transport
import Upstream

/// Builds the response for the client from the upstream's parsed head.
enum ResponseRewrite {
  /// Builds the head. `sealed`: the size of the envelope that follows, or 0 for an empty body; nil without an envelope.
  /// It sends nothing.
  static func build(
    _ outgoing: OutgoingResponseHead, of exchange: Exchange, _ response: ResponseHead, _ pass: CompiledPass,
    sealed: Int? = nil
  ) {
    outgoing.reset(over: response)
    outgoing.status = status(for: exchange, response)
    if response.present.contains(.xAccelLimitRate), !pass.settings.ignoredHeaders.contains(.limitRate) {
      ResponseRate.take(response, exchange)
    }
    outgoing.body = sealed.map { .length(UInt64($0)) } ?? body(for: exchange, outgoing.status, response, pass)
    // nginx forwards a Server that `proxy_pass_header` names, or none. A response needs a Date (RFC 9110 §6.6.1).
    let passed = (!pass.hidden.contains(.server), passesDate(response, pass)), tokens = pass.serverTokens
    borrowing(exchange.worker.ownFields) { own in
      switch passed {
      case (false, false): own.add(tokens: tokens, to: outgoing)
      case (false, true): own.addServer(tokens: tokens, to: outgoing)
      case (true, false): own.addDate(to: outgoing)
      case (true, true): break
      }
    }
    // The response to HEAD has the fields that GET would have: those of an envelope.
    let isSealed = pass.envelope != nil && (sealed ?? (exchange.head.method == .head ? 1 : 0)) > 0
    addFields(to: outgoing, of: exchange, response, pass, isSealed: isSealed)
    if let own = exchange.progress.ownFields { outgoing.add(own) }
    exchange.account.internalRequests.addCarried(to: outgoing, except: response.present)
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
    guard pass.settings.interceptsErrors, response.status >= 300,
      exchange.errorPage(for: Int(response.status)) != nil
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
    let isAnnounced = status >= 200 && status != 204 && pass.envelope == nil
    return .none(announced: isAnnounced ? response.announcedLength : nil)
  }

  private static func addFields(
    to outgoing: OutgoingResponseHead, of exchange: Exchange, _ response: ResponseHead, _ pass: CompiledPass,
    isSealed: Bool
  ) {
    let bytes = response.bytes.readable
    if isSealed { outgoing.add("Content-Type", "application/json") }
    // Mostly a response has none of the fields that need more than a look at their names.
    var watched = pass.rewrittenFields
    if isSealed { watched.insert(.contentType) }
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
        if isSecond || isSealed && field.id == .contentType { continue }
        if addRewritten(field, bytes, exchange, pass, to: outgoing) { continue }
      }
      outgoing.forward(field)
    }
  }

  /// Adds a field as `proxy_redirect` or the `proxy_cookie_…` directives change it. Returns whether they do.
  @inline(never)
  private static func addRewritten(
    _ field: Field, _ bytes: UnsafeRawBufferPointer, _ exchange: Exchange, _ pass: CompiledPass,
    to outgoing: OutgoingResponseHead
  ) -> Bool {
    switch field.id {
    case .location, .refresh:
      return !pass.redirects.isEmpty && addRedirect(field, bytes, exchange, pass, to: outgoing)
    case .setCookie:
      guard let value = pass.cookies?.rewrite(bytes[field.value], exchange) else { return false }
      return value.withUnsafeBytes { outgoing.add(bytes[field.name], $0) }
    default: return false
    }
  }

  /// Whether the upstream's own Date replaces sallyport's (`proxy_pass_header`).
  private static func passesDate(_ response: ResponseHead, _ pass: CompiledPass) -> Bool {
    !pass.hidden.contains(.date) && response.fields.first(.date) != nil
  }

  /// sallyport frames the body itself.
  private static let skipped = FieldNameSet(.contentLength, .transferEncoding)

  /// Applies `proxy_redirect`; returns true if a rule matched and the field was added. As in nginx, `absolute_redirect`
  /// makes a Location that became a path absolute. A Location that no rule matched stays unchanged.
  private static func addRedirect(
    _ field: Field, _ bytes: UnsafeRawBufferPointer, _ exchange: Exchange, _ pass: CompiledPass,
    to outgoing: OutgoingResponseHead
  ) -> Bool {
    let value = Array(bytes[field.value])
    var at = 0
    if field.id == .refresh {
      // The form `5; url=http://…`, without case.
      guard let start = value.map({ ASCII.lower($0) }).firstRange(of: Array("url=".utf8)) else { return false }
      at = start.upperBound
    }
    for rule in pass.redirects {
      let rest: ArraySlice<UInt8>
      switch rule.from {
      case .text(let template):
        let from = template.bytes(exchange)
        guard !from.isEmpty, value[at...].starts(with: from) else { continue }
        rest = value[(at + from.count)...]
      case .regex(let expression, let slots):
        guard LivePattern.matches(expression, slots, Array(value[at...]), exchange) else { continue }
        rest = []
      }
      let target = rule.to.bytes(exchange).filter { $0 >= 0x20 && $0 != 0x7F } + rest
      let rewritten = field.id == .location ? AbsoluteLocation.address(target, exchange) : value[..<at] + target
      return rewritten.withUnsafeBytes { outgoing.add(bytes[field.name], $0) }
    }
    return false
  }
}
