import Bytes
import HTTP
import Observability
import TLS
import Transport
import Upstream

/// What goes to the client: bodies from upstream, and the proxy's own answers.
extension Exchange {
  // MARK: Bodies

  func writeBody(_ bytes: UnsafeRawBufferPointer, to connection: ClientConnection) {
    guard !isClientGone, case .streaming(let framing) = answer, framing != .none else { return }
    bodyBytesSent &+= UInt64(bytes.count)
    if framing == .chunked {
      // The size line and the data gather in the worker's record, so three writes are no three records.
      scratch.removeAll()
      ChunkedWriter.append(size: bytes.count, to: &scratch)
      connection.send(scratch.readable)
      connection.send(bytes)
      scratch.removeAll()
      ChunkedWriter.endChunk(to: &scratch)
      connection.send(scratch.readable)
    } else {
      connection.send(bytes)
    }
  }

  func endBody(_ trailers: Trailers?) {
    guard case .streaming(.chunked) = answer, let connection, !isClientGone else { return }
    if let trailers, head.acceptsTrailers { sentTrailers = shown(trailers) }
    scratch.removeAll()
    ChunkedWriter.lastChunk(sentTrailers, to: &scratch)
    connection.send(scratch.readable)
  }

  /// `proxy_hide_header` counts for the end of the body too, and so do the fields that are between the upstream and us.
  private func shown(_ trailers: Trailers) -> Trailers? {
    guard let hidden = pass?.hidden else { return trailers }
    return trailers.removing { hidden.contains($0, in: $1) }
  }

  // MARK: Heads

  /// `add_header`: with success and redirects only, unless it says always.
  func addConfiguredFields(to outgoing: OutgoingResponseHead) {
    guard !location.addedFields.isEmpty else { return }
    let isUsual: Bool
    switch outgoing.status {
    case 200, 201, 204, 206, 301, 302, 303, 304, 307, 308: isUsual = true
    default: isUsual = false
    }
    for field in location.addedFields where isUsual || field.always {
      // Not in the head's own storage: a variable may read the head that is being built.
      var value = ByteBuffer()
      field.value.append(self, to: &value)
      guard !value.isEmpty else { continue }
      if !field.name.withUnsafeBytes({ outgoing.add($0, value.readable) }) {
        log(
          .error,
          "add_header \"\(String(decoding: field.name, as: UTF8.self))\" left out: its value has control characters")
      }
    }
  }

  /// Builds the head of an upstream's response and sends it. `sealed`: bytes of the envelope that follows.
  func sendHead(of response: ResponseHead, _ pass: LiveProxyPass, sealed: Int? = nil) {
    // Fields that are added may say it.
    status = Int(ResponseRewrite.status(for: self, response))
    ResponseRewrite.build(responseHead, of: self, response, pass, sealed: sealed)
    sendHead()
  }

  /// Sends the head that was built, and settles how its body is framed.
  private func sendHead() {
    guard let connection else { return }
    let framing: BodyFraming =
      switch responseHead.body {
      case .none: .none
      case .length(let length): .length(length)
      case .stream: head.version == .http11 ? .chunked : .untilClose
      }
    if framing == .untilClose || !connection.isBodyRead || connection.isLeaving { persists = false }
    responseHead.framing = framing
    if status == 101 {
      responseHead.persistence = .upgrade
    } else {
      responseHead.persistence = persists ? .keepAlive(announced: location.limits.keepaliveAnnounced) : .close
    }
    scratch.removeAll()
    HTTP1Encoder.response(responseHead, to: &scratch)
    connection.send(scratch.readable)
    answer = .streaming(framing)
  }

  // MARK: Answers of our own

  /// Answers with an error: the page that `error_page` names, or the standard one.
  func fail(_ failure: Failure) {
    guard case .waiting = answer else { return cutAnswer() }
    if failure.endsConnection { persists = false }
    dropUpstream()
    if redirection == .none, let page = location.settings.errorPages.first(where: { $0.status == failure.code }) {
      return show(page, for: failure)
    }
    answerPage(Failure(statusOverride ?? failure.code))
  }

  private func show(_ page: ErrorPage, for failure: Failure) {
    redirection = redirection(to: page.target, for: failure)
    requestBegun = false
    tried = TriedServers()
    attempts.removeAll(keepingCapacity: true)
    if !redirection.keepsBody {
      connection?.discardBody()
      body = .none
    } else if case .held = body {
      // Not a byte of it was read: whoever answers now may take it.
      body = .none
    }
    switch page.replacement {
    case nil: statusOverride = Int(failure.status)
    case 0: statusOverride = nil
    case .some(let code): statusOverride = code
    }
    switch page.target {
    case .path(let template):
      let text = LiveTemplate(template).bytes(self)
      let parts = text.split(separator: 0x3F, maxSplits: 1, omittingEmptySubsequences: false)
      uri.removeAll()
      uri.append(Array(parts.first ?? []))
      redirectedArguments = parts.count > 1 ? Array(parts[1]) : []
      route(at: server)
    case .named(let name):
      guard let found = server.locations.named(name) else {
        log(.error, "could not find named location \"\(name)\"")
        return answerPage(Failure(500))
      }
      location = found
      enter(found)
    case .redirect(let template):
      let code = page.replacement.flatMap { [301, 302, 303, 307, 308].contains($0) ? $0 : nil } ?? 302
      redirect(status: code, to: LiveTemplate(template).bytes(self))
    }
  }

  /// A named location gets the request as it is, so that a POST is not done as a GET; unless it is the request that is
  /// at fault, or its body is gone.
  private func redirection(to target: ErrorPage.Target, for failure: Failure) -> Redirection {
    guard case .named(let name) = target else { return .path }
    switch body {
    case .collected(let kept) where !mayPass(kept, to: name): return .bodiless
    case .none, .held, .collected: return failure.blamesRequest ? .bodiless : .whole
    case .collecting, .streaming, .streamed: return .bodiless
    }
  }

  private func answerPage(_ failure: Failure) {
    settleOwnAnswer(status: Int(failure.status))
    var page = ByteBuffer()
    if failure.status >= 300 {
      FailureResponse.writePage(failure, tokens: location.settings.redirects.serverTokens, to: &page)
    }
    answer(status: Int(failure.status), type: "text/html", location: nil, body: page.readable)
  }

  /// `return`.
  func answerReturn(status code: Int, _ content: LiveReturn) {
    if code == 444 {
      status = 444
      writeAccessRecord()
      connection?.abort(.orderly)
      return
    }
    switch content {
    case .standard:
      if code >= 400 { return fail(Failure(code)) }
      settleOwnAnswer(status: code)
      var page = ByteBuffer()
      if code >= 300, code != 304 {
        FailureResponse.writePage(Failure(code), tokens: location.settings.redirects.serverTokens, to: &page)
      }
      answer(status: code, type: "text/html", location: nil, body: page.readable)
    case .redirect(let target): redirect(status: code, to: target.bytes(self))
    case .text(let template):
      settleOwnAnswer(status: statusOverride ?? code)
      let text = template.bytes(self)
      text.withUnsafeBytes { answer(status: statusOverride ?? code, type: "text/plain", location: nil, body: $0) }
    }
  }

  /// `metrics`.
  func answerMetrics() {
    guard let connection, head.method == .get || head.method == .head else { return fail(Failure(405)) }
    settleOwnAnswer(status: 200)
    let page = Array(worker.metrics.page(of: connection.live.generation).text.utf8)
    page.withUnsafeBytes {
      answer(status: 200, type: "text/plain; version=0.0.4; charset=utf-8", location: nil, body: $0)
    }
  }

  /// `location /a/ { proxy_pass … }` and a request for `/a`.
  func redirectToSlash() {
    var target = ByteBuffer()
    TargetPath.escape(uri.readable, into: &target)
    target.append(0x2F)
    var arguments = ByteBuffer()
    append(.simple(.args), to: &arguments)
    if !arguments.isEmpty {
      target.append(0x3F)
      target.append(arguments.readable)
    }
    redirect(status: 301, to: Array(target.readable))
  }

  private func redirect(status code: Int, to target: [UInt8]) {
    settleOwnAnswer(status: code)
    var page = ByteBuffer()
    FailureResponse.writePage(Failure(code), tokens: location.settings.redirects.serverTokens, to: &page)
    answer(status: code, type: "text/html", location: absolute(target), body: page.readable)
  }

  /// `absolute_redirect`, `server_name_in_redirect`, `port_in_redirect`.
  func absolute(_ target: [UInt8]) -> [UInt8] {
    let rules = location.settings.redirects
    guard target.first == 0x2F, rules.absolute else { return target }
    let isTLS = facts.tls != nil
    var url = Array((isTLS ? "https://" : "http://").utf8)
    let named = server.settings.primaryName
    if rules.serverNameIn && !named.isEmpty {
      url += Array(named.utf8)
    } else if !head.host.isEmpty {
      url += Array(head.bytes.readable[head.host])
    } else {
      url += Array((facts.local?.host ?? named).utf8)
    }
    if rules.portIn, let port = facts.local?.port, port != (isTLS ? 443 : 80) { url += Array(":\(port)".utf8) }
    return url + target
  }

  /// A body that was not read: over with what is at hand, or the connection ends after the answer.
  func settleOwnAnswer(status: Int) {
    self.status = status
    guard let connection else { return }
    if !connection.isBodyRead { connection.discardBody() }
    if !connection.isBodyRead || connection.isLeaving { persists = false }
  }

  func answer(status: Int, type: StaticString, location target: [UInt8]?, body page: UnsafeRawBufferPointer) {
    guard let connection else { return }
    let outgoing = responseHead
    outgoing.reset()
    outgoing.status = UInt16(truncatingIfNeeded: status)
    outgoing.add(OwnFields.server(tokens: location.settings.redirects.serverTokens))
    OwnFields.addDate(clock, to: outgoing)
    let hasBody = status >= 200 && status != 204 && status != 304
    if hasBody {
      outgoing.add("Content-Type", type)
      outgoing.body = head.method == .head ? .none(announced: UInt64(page.count)) : .length(UInt64(page.count))
    }
    if let target, !target.withUnsafeBytes({ outgoing.add("Location", $0) }) {
      log(.error, "Location left out: the address to redirect to has control characters")
    }
    outgoing.add(answerFields)
    addConfiguredFields(to: outgoing)
    sendHead()
    if case .length = outgoing.body {
      bodyBytesSent = UInt64(page.count)
      connection.send(page)
    }
    finish()
  }
}
