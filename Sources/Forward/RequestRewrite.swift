import Bytes
import HTTP
import Traffic
import Upstream

/// Builds the request for the upstream from the parsed head.
///
/// It removes hop-by-hop fields, the framing, and every field that `proxy_set_header` sets (identity fields under every
/// spelling of their names). It adds the set fields and its own framing. It reads the exchange and changes nothing in
/// it.
enum RequestRewrite {
  /// Builds the head. Returns false when a template made a method or target that would break the request line.
  static func build(
    _ outgoing: OutgoingRequestHead, of exchange: Exchange, _ handler: ProxyHandler, _ pass: CompiledPass
  ) -> Bool {
    outgoing.reset(over: exchange.head)
    guard setMethod(of: outgoing, exchange, handler, pass), setTarget(of: outgoing, exchange, handler, pass) else {
      return false
    }
    pass.setFields.add(to: outgoing, for: exchange)
    if !pass.requestHooks.isEmpty {
      for hook in pass.requestHooks { hook.addFields(to: outgoing, of: exchange) }
    }
    // RFC 8470 §5.1: a second Early-Data field, from the client, has the same meaning.
    if exchange.isEarly && !pass.setsEarlyData { outgoing.add(earlyData) }
    outgoing.framing = framing(exchange, handler)
    if pass.settings.request.passesFields {
      let bytes = exchange.head.bytes.readable
      for field in exchange.head.fields {
        if field.isHopByHop || skipped.contains(field.id) || pass.replaced.contains(field, in: bytes) { continue }
        outgoing.forward(field)
      }
    }
    // A variable that could not be computed may have been meant for a field that an upstream trusts.
    if exchange.variables.isBroken { return false }
    return pass.requestHooks.isEmpty
      || pass.requestHooks.allSatisfy { $0.complete(outgoing, of: exchange, isTLS: handler.scheme == .https) }
  }

  /// The method for the upstream. The framing of the response and the retry decision depend on it.
  static func method(_ exchange: Exchange, _ handler: ProxyHandler, _ pass: CompiledPass) -> HTTP.Method {
    if handler.isProbe { return .head }
    if let method = pass.method { return method.bytes(exchange).withUnsafeBytes { HTTP.Method($0) } }
    // An error page is fetched with GET, or with HEAD for a HEAD request.
    let method = exchange.head.method
    return method == .get || method == .head || exchange.redirection.keepsBody ? method : .get
  }

  private static let earlyData = FieldBlock("Early-Data", "1")

  /// sallyport responds to Expect itself, and writes the other fields anew.
  private static let skipped = FieldNameSet(.contentLength, .transferEncoding, .expect, .host)

  /// Sets the method: the client's, unless the configuration sets another method or the request is for an error page.
  private static func setMethod(
    of outgoing: OutgoingRequestHead, _ exchange: Exchange, _ handler: ProxyHandler, _ pass: CompiledPass
  ) -> Bool {
    if handler.isProbe { return outgoing.setMethod("HEAD") }
    if let method = pass.method { return method.bytes(exchange).withUnsafeBytes { outgoing.setMethod($0) } }
    if exchange.head.method == .get || exchange.head.method == .head || exchange.redirection.keepsBody { return true }
    return outgoing.setMethod("GET")
  }

  /// Sets the target: as the client wrote it, unless `proxy_pass` or an internal redirect changes it.
  private static func setTarget(
    of outgoing: OutgoingRequestHead, _ exchange: Exchange, _ handler: ProxyHandler, _ pass: CompiledPass
  ) -> Bool {
    // The target of a head that was refused may be no target.
    if pass.settings.target.uri == nil, pass.targetTemplate == nil, !exchange.target.isRewritten,
      exchange.head.target.form == .origin, exchange.head.refusedLine == nil
    {
      return true
    }
    var target = ByteBuffer()
    writeTarget(exchange, handler, pass, to: &target)
    return outgoing.setTarget(target.readable)
  }

  private static func writeTarget(
    _ exchange: Exchange, _ handler: ProxyHandler, _ pass: CompiledPass, to target: inout ByteBuffer
  ) {
    let head = exchange.head
    if let uri = handler.dynamic?.uri, let first = uri.first {
      if first != 0x2F { target.append(0x2F) }
      return target.append(uri)
    }
    if let uri = pass.settings.target.uri, !exchange.target.hasLeftLocation {
      target.append(uri)
      let path = exchange.target.uri.readable
      let rest = min(pass.settings.target.replacedPrefix, path.count)
      TargetPath.escape(UnsafeRawBufferPointer(rebasing: path[rest...]), into: &target)
      return appendArguments(exchange, to: &target)
    }
    if exchange.target.isRewritten {
      TargetPath.escape(exchange.target.uri.readable, into: &target)
      return appendArguments(exchange, to: &target)
    }
    let path = head.bytes.readable[head.target.path]
    if path.isEmpty { target.append(0x2F) } else { target.append(path) }
    guard let query = head.target.query else { return }
    target.append(0x3F)
    target.append(head.bytes.readable[query])
  }

  /// As in nginx, an empty query leaves out its `?`.
  private static func appendArguments(_ exchange: Exchange, to target: inout ByteBuffer) {
    var arguments = ByteBuffer()
    exchange.append(.simple(.args), to: &arguments)
    guard !arguments.isEmpty else { return }
    target.append(0x3F)
    target.append(arguments.readable)
  }

  private static func framing(_ exchange: Exchange, _ handler: ProxyHandler) -> BodyFraming {
    let own = handler.attempt.body
    if handler.isBodiless {
      let hasBody = if case .text? = own { true } else { exchange.head.framing != .none }
      return !handler.isProbe && hasBody ? .length(0) : .none
    }
    switch exchange.body.state {
    case _ where own != nil:
      if case .text(let text)? = own { return .length(UInt64(text.count)) }
      return emptyFraming(exchange)
    case .collected(let kept): return .length(kept.count)
    case .held, .streaming, .streamed: return exchange.head.framing
    case .none, .collecting: return emptyFraming(exchange)
    }
  }

  /// As in nginx, `Content-Length: 0` says that there is no body if the client has said something of one.
  private static func emptyFraming(_ exchange: Exchange) -> BodyFraming {
    exchange.head.framing != .none && exchange.redirection.keepsBody ? .length(0) : .none
  }
}
