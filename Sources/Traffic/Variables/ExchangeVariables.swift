import Bytes
package import Enrolment
import Glibc
package import HTTP
import Observability
import Transport

/// The values of variables for an exchange. A variable without a value appends nothing, as in nginx.
extension Exchange {
  func append(parameterized variable: Variable, to output: inout ByteBuffer) {
    switch variable {
    case .requestField(let name): name.withUnsafeBytes { appendRequestField($0, to: &output) }
    case .argument(let name): if !name.isEmpty { appendArgument(name, to: &output) }
    case .cookie(let name): if !name.isEmpty { appendCookie(name, to: &output) }
    case .sentField(let name): appendSentField(name, to: &output)
    case .upstreamField(let name): appendUpstreamField(name, to: &output)
    case .upstreamCookie(let name): appendUpstreamCookie(name, to: &output)
    case .sentTrailer(let name): progress.sentTrailers?.append(variableName: name, to: &output)
    case .upstreamTrailer(let name): handler?.upstreamTrailers?.append(variableName: name, to: &output)
    case .escapedCapture(let group): appendEscapedCapture(group, to: &output)
    case .simple, .feature, .proxyTLV, .capture, .slot, .belowFolder, .settable: appendShared(variable, to: &output)
    }
  }

  /// Appends a capture in a query or in an address: escaped, if the request's path was.
  private func appendEscapedCapture(_ group: Int, to output: inout ByteBuffer) {
    guard variables.captures.indices.contains(group) else { return }
    let path = head.bytes.readable[head.target.path]
    guard path.contains(where: { $0 == 0x25 || $0 == 0x2B }) else { return output.append(variables.captures[group]) }
    variables.captures[group].withUnsafeBytes { TargetPath.escapeArgument($0, into: &output) }
  }

  /// nginx's `$args`.
  package var arguments: [UInt8] {
    var output = ByteBuffer()
    appendArguments(to: &output)
    return Array(output.readable)
  }

  /// Appends the value of a variable that has no place in `ConnectionFacts`.
  func append(ofRequest variable: SimpleVariable, to output: inout ByteBuffer) {
    let bytes = head.bytes.readable
    switch variable {
    case .args, .query_string: appendArguments(to: &output)
    case .is_args: if hasArguments { output.append(0x3F) }
    case .uri, .document_uri: output.append(target.uri.readable)
    case .request_uri: appendRequestURI(to: &output)
    case .request: appendRequestLine(to: &output)
    case .request_method:
      if target.isShownAsGet { output.append("GET") } else { output.append(bytes[head.shownMethodRange]) }
    case .request_length: output.append(decimal: UInt64(head.byteCount) &+ body.received)
    case .request_time: Self.append(milliseconds: worker.loop.now &- startedAt, to: &output)
    case .request_id: RequestID.of(self).append(to: &output)
    case .request_completion: if case .whole = progress.state { output.append("OK") }
    case .host: appendHost(to: &output)
    case .request_port: if let port = head.port { output.append(decimal: UInt64(port)) }
    case .is_request_port: if head.port != nil { output.append(0x3A) }
    case .server_protocol: if head.isVersionKnown { output.append(head.version.text) }
    case .http2: if head.version == .http2 { output.append(facts.isTLS ? "h2" : "h2c") }
    case .content_length:
      if let field = head.first(.contentLength) {
        output.append(bytes[field.value])
      } else if case .collected(let kept) = body.state {
        output.append(decimal: kept.count)
      }
    case .content_type: Self.contentType.withUTF8Buffer { appendRequestField(UnsafeRawBufferPointer($0), to: &output) }
    case .remote_user: appendRemoteUser(to: &output)
    case .status: Self.append(status: progress.statusSoFar, to: &output)
    case .body_bytes_sent: output.append(decimal: progress.bodyBytesSent)
    case .bytes_sent: output.append(decimal: (withStream { $0.sentBytes } ?? 0) &- progress.sentBytesAtStart)
    case .pipe: output.append(withStream { $0.isPipelined } == true ? 0x70 : 0x2E)
    case .connection_requests: output.append(decimal: UInt64(withStream { $0.requestNumber } ?? 0))
    case .connection_time: Self.append(milliseconds: worker.loop.now &- borrowing(facts) { $0.openedAt }, to: &output)
    case .msec, .time_local, .time_iso8601: appendTime(variable, to: &output)
    case .proxy_add_x_forwarded_for: appendForwardedFor(to: &output)
    case .request_body: body.shown.map { output.append($0.memory.readable) }
    case .request_body_file: if case .collected(let kept) = body.state { output.append(kept.path) }
    case .connections_active: output.append(decimal: worker.metrics.traffic.totals.active)
    case .connections_reading: output.append(decimal: worker.metrics.traffic.totals.reading)
    case .connections_writing: output.append(decimal: worker.metrics.traffic.totals.writing)
    case .connections_waiting: output.append(decimal: worker.metrics.traffic.totals.waiting)
    case .tcpinfo_rtt, .tcpinfo_rttvar, .tcpinfo_snd_cwnd, .tcpinfo_rcv_space:
      if let value = facts.transportValue(variable) { output.append(decimal: UInt64(value)) }
    default: withHandler { $0.append(variable, to: &output) }
    }
  }

  private var hasArguments: Bool {
    target.redirectedArguments.map { !$0.isEmpty } ?? (head.target.query.map { !$0.isEmpty } ?? false)
  }

  private func appendArguments(to output: inout ByteBuffer) {
    if let redirectedArguments = target.redirectedArguments { return output.append(redirectedArguments) }
    if let query = head.target.query { output.append(head.bytes.readable[query]) }
  }

  /// Appends the target as sent, without the scheme and authority of an absolute form, as in nginx.
  private func appendRequestURI(to output: inout ByteBuffer) {
    let bytes = head.bytes.readable
    guard head.target.form == .absolute else { return output.append(bytes[head.target.raw]) }
    if head.target.path.isEmpty { output.append(0x2F) } else { output.append(bytes[head.target.path]) }
    guard let query = head.target.query else { return }
    output.append(0x3F)
    output.append(bytes[query])
  }

  private func appendRequestLine(to output: inout ByteBuffer) {
    let bytes = head.bytes.readable
    // As in nginx: what a refused head has in place of a request line, as it came.
    if let line = head.refusedLine, !line.isEmpty { return output.append(bytes[line]) }
    guard !head.methodRange.isEmpty else { return }
    output.append(bytes[head.shownMethodRange])
    output.append(0x20)
    output.append(bytes[head.target.raw])
    output.append(0x20)
    output.append(head.version.text)
  }

  /// nginx's $host: of the request line, else of Host, lower-case, else the server's name.
  private func appendHost(to output: inout ByteBuffer) {
    guard !head.host.isEmpty else { return output.append(string: server.settings.primaryName) }
    for byte in head.bytes.readable[head.host] { output.append(ASCII.lower(byte)) }
  }

  private static let contentType: StaticString = "content_type"

  /// Several fields of one name are joined, as in nginx.
  private func appendRequestField(_ name: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    head.append(variableName: name, to: &output)
  }

  private func appendSentField(_ name: [UInt8], to output: inout ByteBuffer) {
    name.withUnsafeBytes { response.append(variableName: $0, to: &output) }
  }

  private func appendUpstreamField(_ name: [UInt8], to output: inout ByteBuffer) {
    guard let response = handler?.upstreamHead else { return }
    name.withUnsafeBytes { response.append(variableName: $0, to: &output) }
  }

  /// $upstream_cookie_name: of the first Set-Cookie of that name, letters folded, without its attributes, and without
  /// the blanks beside its `=`.
  private func appendUpstreamCookie(_ name: [UInt8], to output: inout ByteBuffer) {
    guard let response = handler?.upstreamHead, !name.isEmpty else { return }
    for field in response.fields where field.id == .setCookie {
      let pair = response.bytes.readable[field.value].prefix { $0 != 0x3B }
      guard pair.count >= name.count, zip(pair, name).allSatisfy({ ASCII.lower($0) == ASCII.lower($1) }) else {
        continue
      }
      let rest = pair.dropFirst(name.count).drop { $0 == 0x20 }
      if rest.first == 0x3D { return output.append(Array(rest.dropFirst().drop { $0 == 0x20 })) }
    }
  }

  /// $arg_name: the first of that name, letters folded, as sent.
  private func appendArgument(_ name: [UInt8], to output: inout ByteBuffer) {
    if let redirectedArguments = target.redirectedArguments {
      return redirectedArguments.withUnsafeBytes { bytes in
        let all = ByteRange(start: 0, count: bytes.count)
        if let value = NamedPairs.value(of: name, in: bytes, all, separator: 0x26) { output.append(bytes[value]) }
      }
    }
    let bytes = head.bytes.readable
    if let query = head.target.query, let value = NamedPairs.value(of: name, in: bytes, query, separator: 0x26) {
      output.append(bytes[value])
    }
  }

  /// $cookie_name: the first of that name, letters folded as in nginx.
  private func appendCookie(_ name: [UInt8], to output: inout ByteBuffer) {
    let bytes = head.bytes.readable
    for field in head.fields where field.id == .cookie {
      if let value = NamedPairs.value(of: name, in: bytes, field.value, separator: 0x3B) {
        return output.append(bytes[value])
      }
    }
  }

  /// Appends the user name of Basic credentials, which may be unverified.
  private func appendRemoteUser(to output: inout ByteBuffer) {
    if case .basic(let user, _) = head.shownCredentials { output.append(user) }
  }

  private func appendForwardedFor(to output: inout ByteBuffer) {
    let bytes = head.bytes.readable
    for field in head.fields where field.id == .xForwardedFor {
      output.append(bytes[field.value])
      output.append(", ")
    }
    output.append(string: clientAddress.host)
  }
}

extension Exchange {
  /// The client's handshake is not over: the request may be a replay (RFC 8470 §3).
  package var isEarly: Bool { withStream { $0.isEarly } ?? false }
  var bodyTimeout: Int { location.limits.bodyTimeout }
  /// Whether the exchange is that of a subrequest.
  package var isSubrequest: Bool { withStream { $0.isSubrequest } ?? false }
}

extension Trailers {
  /// Appends the value of the first field of this name: `_` stands for `-`, and letters have no case.
  fileprivate func append(variableName name: [UInt8], to output: inout ByteBuffer) {
    bytes.withUnsafeBytes { bytes in
      for field in fields {
        let sent = bytes[field.name]
        guard sent.count == name.count,
          zip(sent, name).allSatisfy({ ($0 == 0x2D ? 0x5F : ASCII.lower($0)) == ASCII.lower($1) })
        else { continue }
        return output.append(bytes[field.value])
      }
    }
  }
}

/// How the request's body is asked for, and what becomes of an invalid one.
extension Exchange {
  func requestBodyIsInvalid(_ error: BodyError) {
    log(.info, "client sent an invalid body: \(error.reason)")
    failDuringBody(ErrorResponse(400))
  }

  /// Collects the body until it is complete. The handler gets `requestBodyDidEnd`, perhaps before this returns.
  package func collectBody(in kept: RequestBody) {
    setBody(.collecting(kept))
    // The stream tells no end of an empty body.
    if head.framing == .length(0), stream?.isBodyRead == true { return requestBodyDidEnd(trailers: nil) }
    continueClient()
    stream?.resumeBody()
  }

  /// Passes the body to the handler as it arrives, perhaps before this returns.
  package func streamBody() {
    setBody(.streaming)
    continueClient()
    stream?.resumeBody()
  }

  /// Sends one 100 to a client that waits for it, when the handler wants the body (RFC 9110 §10.1.1).
  private func continueClient() {
    if head.expectsContinue { stream?.sendInterim(100) }
  }
}

extension RequestHead {
  /// The request's credentials; nil if there are none, or none that can be parsed.
  package var shownCredentials: ShownCredentials? {
    guard let field = first(.authorization) else { return nil }
    return ShownCredentials(bytes.readable[field.value])
  }
}

extension RequestID {
  /// The identifier of a request, made when a template first asks for it.
  package static func of(_ exchange: Exchange) -> RequestID {
    if let made = exchange.variables.requestID { return made }
    let made = RequestID(&exchange.worker.randomWords)
    exchange.keep(made)
    return made
  }
}
