import Bytes
package import HTTP
import Observability
package import Patterns
import TLS
import Transport

/// The output of an exchange: responses of content handlers, sallyport's own responses and error pages, and lines of
/// the error log.
extension Exchange {
  // MARK: The response

  /// Bytes that the client has not taken yet.
  package var waitingBytes: Int {
    (withStream { $0.waitingBytes } ?? 0) + progress.filters.keptBytes
  }

  /// Sends the head that was built in `response`.
  package func sendHead() {
    setStatus(Int(response.status))
    if !location.filters.isEmpty || progress.askedFilter != nil { beginFilters() }
    if case .none = response.body { setState(.streaming(hasBody: false)) } else { setState(.streaming(hasBody: true)) }
    withStream { $0.send(head: response) }
  }

  @inline(never)
  private func beginFilters() {
    for filter in location.filters { filter.begin(self) }
    progress.askedFilter?.begin(self)
  }

  /// Sends bytes of the response's body, where it has one.
  package func sendBody(_ bytes: UnsafeRawBufferPointer) {
    guard case .streaming(hasBody: true) = progress.state else { return }
    if let filter = progress.filters.first { return filter.send(bytes) }
    passBody(bytes)
  }

  /// Passes bytes of the body to the client, behind all filters.
  func passBody(_ bytes: UnsafeRawBufferPointer) {
    didSendBody(bytes.count)
    withStream { $0.send(body: bytes) }
  }

  /// The response is whole.
  package func complete(_ trailers: Trailers? = nil) {
    guard case .streaming(hasBody: true) = progress.state else { return end(.complete) }
    endBody(.whole(trailers.flatMap { shown($0) }))
  }

  /// The source of the response broke off.
  package func breakOff() { endBody(.broken) }

  private func endBody(_ end: BodyEnd) {
    if let filter = progress.filters.first { filter.end(end) } else { bodyDidEnd(end) }
  }

  /// The body's end has passed all filters.
  package func bodyDidEnd(_ bodyEnd: BodyEnd) {
    switch bodyEnd {
    case .whole(let trailers):
      if let trailers { didSendTrailers(trailers) }
      withStream { $0.end(trailers) }
      end(.complete)
    case .broken: end(.upstreamBroke)
    }
  }

  /// The trailers of a source that the client gets.
  private func shown(_ trailers: Trailers) -> Trailers? {
    guard head.acceptsTrailers, withStream({ $0.takesTrailers }) == true else { return nil }
    guard let handler else { return trailers }
    return trailers.removing { handler.hides($0, in: $1) }
  }

  /// A filter keeps no bytes of the response any more: asks the filters before it, and the source, for more, or, if bytes
  /// wait for the client, has the stream tell when the client has taken them. A stream of HTTP/2 tells only if it is asked
  /// to.
  package func askForMore() {
    if withStream({ $0.waitingBytes > 0 }) == true { return stream?.watchSending(location.limits.sendTimeout) ?? () }
    // A filter before that one may keep bytes until those behind it have gone.
    streamDidDrain()
  }

  /// The 101 was sent: bytes go both ways as they are.
  package func becomeTunnel() {
    setState(.tunnel)
    stream?.becomeTunnel()
  }

  package func sendTunnel(_ bytes: UnsafeRawBufferPointer) {
    didSendBody(bytes.count)
    stream?.send(body: bytes)
  }

  /// Changes the head as the location says.
  @inline(__always)
  package func changeHead() { if location.changesFields { passHeadFilters() } }

  @inline(never)
  private func passHeadFilters() { for filter in location.headFilters { filter.change(self) } }

  // MARK: Errors

  /// A head that was refused, or with no error one that did not come to its end in time: answered, logged, and the
  /// connection ends. As in nginx, pages and log are those of the server block of its Host, but only if that block admits
  /// the client; else those of the block before a Host is known.
  func beginRefused(_ stream: ClientStream, _ error: HeadError?) {
    start(stream)
    stream.closeAfterResponse()
    let server = admittingServer(stream.session) ?? stream.session.firstServer
    assume(server)
    // A front whose head can't be read has named nobody, and is not the client itself.
    if let step = server.relayedClientStep, let context = server.context,
      step.isFront(stream.session)
        || step.believes(.frontByCertificate, stream.session)
    {
      setClient(RelayedClient(from: .stranger, .absent, by: context))
    }
    let fault =
      error.map { "client sent invalid request: \($0.reason)" } ?? "client timed out (110: Connection timed out)"
    log(.info, "\(fault) while reading client request headers")
    noteRefusedPath()
    fail(error.map { ErrorResponse($0) } ?? .timedOut)
  }

  /// The server block of the Host of a refused head; nil unless it admits the client. A block that knows its clients by a
  /// field of a front knows nobody without the fields.
  private func admittingServer(_ session: ClientSession) -> LiveServer? {
    guard !head.host.isEmpty, let server = session.server(for: self) else { return nil }
    return server.relayedClientStep == nil && session.admits(self, at: server) ? server : nil
  }

  /// Responds with an error: the page that `error_page` names, or the standard one. If the head of a response has gone
  /// out already, the exchange ends as `upstreamBroke` instead.
  package func fail(_ failure: ErrorResponse) {
    guard case .waiting = progress.state else { return end(.upstreamBroke) }
    if failure.endsConnection { stream?.closeAfterResponse() }
    dropWaits()
    internalRequests.cancel()
    if case .collecting(let kept) = body.state { _ = kept.takeWaiter() }
    handler?.cancel()
    if !respondsByPage(to: failure) { answerPage(status: failure.code) }
  }

  /// Does the same for a failure that can come after the response has begun.
  package func failDuringBody(_ failure: ErrorResponse) {
    handler?.cancel()
    fail(failure)
  }

  /// Responds with an error and a `Retry-After` field. `wait`: in seconds.
  package func refuse(_ code: Int, retryAfter wait: Int64) {
    Array("\(wait)".utf8).withUnsafeBytes { setOwnField("Retry-After", $0) }
    fail(ErrorResponse(code))
  }

  // MARK: sallyport's own responses

  /// Responds with nginx's standard page of a status, or without a body if the status has no page.
  package func answerPage(status code: Int) {
    let failure = ErrorResponse(code)
    if failure.status >= 400 {
      for feature in worker.shared.features.errorWordings where feature.answer(failure, self) { return }
    }
    var page = ByteBuffer()
    if failure.status >= 300, failure.status != 304 {
      StandardPage.writePage(failure, tokens: location.settings.redirects.serverTokens, to: &page)
    }
    answer(status: Int(failure.status), type: "text/html", body: page.readable)
  }

  /// Redirects a request for `/a` to `location /a/ { proxy_pass … }`, or to the folder of that name.
  package func redirectToSlash() {
    redirect(status: 301, to: SlashRedirect.target(of: self))
  }

  /// As in nginx, `error_page` can name another page for a redirect of a location. A page that is no redirect itself keeps
  /// the Location.
  package func redirect(status code: Int, to target: [UInt8]) {
    let address = AbsoluteLocation.address(target, self)
    guard address.withUnsafeBytes(FieldValue.isValid) else { return refuseRedirect() }
    if case .page? = errorAnswer(to: code) { internalRequests.carry(location: address) }
    if respondsByPage(to: ErrorResponse(code)) { return }
    var page = ByteBuffer()
    StandardPage.writePage(ErrorResponse(code), tokens: location.settings.redirects.serverTokens, to: &page)
    answer(status: code, type: "text/html", location: address, body: page.readable)
  }

  /// A variable in the address of a redirect has a control character. Only a request can bring one, so the client is at fault.
  private func refuseRedirect() {
    log(.info, "client sent control characters that the address of a redirect would have")
    overrideStatus(nil)
    // The address of an error page may have the same variable.
    if case .redirect? = errorAnswer(to: 400) {
      stream?.closeAfterResponse()
      return answerPage(status: 400)
    }
    fail(ErrorResponse(400))
  }

  /// Sets an extra field of sallyport's own response, such as a challenge or `Retry-After`; it replaces an earlier one.
  package func setOwnField(_ name: StaticString, _ value: UnsafeRawBufferPointer) {
    let fields = FieldBlock([(name.withUTF8Buffer { Array($0) }, Array(value))])
    if fields.isEmpty { log(.info, "\(name) left out: its value has control characters") }
    setOwnFields(fields)
  }

  /// Keeps the challenges of an upstream's 401 for the page that `error_page` shows in its place, as nginx does: without
  /// them the client couldn't log in.
  package func keepChallenges(of head: ResponseHead) {
    let bytes = head.bytes.readable
    setOwnFields(
      FieldBlock(
        head.fields.filter { $0.id == .wwwAuthenticate }.map { (Array(bytes[$0.name]), Array(bytes[$0.value])) }))
  }

  /// Sends a complete response. It discards an unread request body; if more of that body must come, the connection ends
  /// after the response.
  /// `typeByPath`: `types` and `default_type` say the type. `length`: of the whole body, if it is longer than `page`: the
  /// handler then sends the rest, and completes the response.
  package func answer(
    status: Int, type: StaticString, typeByPath: Bool = false, location target: [UInt8]? = nil,
    body page: UnsafeRawBufferPointer, of length: Int? = nil
  ) {
    guard let stream else { return }
    let length = max(page.count, length ?? 0)
    setStatus(status)
    if !stream.isBodyRead { stream.discardBody() }
    let outgoing = response
    outgoing.reset()
    outgoing.status = UInt16(truncatingIfNeeded: status)
    worker.ownFields.add(tokens: location.settings.redirects.serverTokens, to: outgoing)
    if status >= 200 && status != 204 && status != 304 {
      if internalRequests.keepsType(over: type) {
      } else if typeByPath {
        location.types.add(to: outgoing, for: self)
      } else {
        outgoing.add("Content-Type", type)
      }
      outgoing.body = head.method == .head ? .none(announced: UInt64(length)) : .length(UInt64(length))
    }
    if let target { _ = target.withUnsafeBytes { outgoing.add("Location", $0) } }
    if let ownFields = progress.ownFields { outgoing.add(ownFields) }
    var present = FieldNameSet()
    if !internalRequests.keepsType(over: type) { present.insert(.contentType) }
    if target != nil { present.insert(.location) }
    internalRequests.addCarried(to: outgoing, except: present)
    changeHead()
    sendHead()
    // An empty chunk would be the last one.
    if !page.isEmpty { sendBody(page) }
    if case .streaming(hasBody: true) = progress.state, length > page.count { return }
    complete()
  }

  /// Whether `count` more bytes of the body may be collected; false if the exchange has responded.
  package func admits(_ count: Int, in kept: RequestBody) -> Bool {
    kept.waiter?.admits(count, in: kept, self) ?? handler?.admits(count, in: kept) ?? true
  }

  // MARK: Events of the client

  func streamDidDrain() { if !progress.filters.drain() { handler?.clientDidDrain() } }
  package func tunnelBytes(_ bytes: UnsafeRawBufferPointer) { handler?.tunnelBytes(bytes) }
  package func tunnelDidEnd() { handler?.tunnelClientDidEnd() }
  /// The worker stops.
  func streamWasCut() { end(.workerStops) }

  /// The client has ended its side of the connection, and may read on. What it has asked for in full is answered in full
  /// (RFC 9112 §9.6); but as in nginx, no upstream works for a client that may have gone (`proxy_ignore_client_abort`).
  package func clientDidEnd() { if handler?.endsWithClient == true || withdrawsPassword() { clientDidLeave() } }

  /// A password that waits for others costs the time of a processor. Nobody looks at that of a client that may have gone, or
  /// clients that guess could leave at once and have many looked at.
  private func withdrawsPassword() -> Bool {
    guard let pending, pending.work == .passwords else { return false }
    return worker.shared.pool.withdraw(pending)
  }

  /// Does the same for an exchange that has gone on after a wait: no event announces again that the client has ended its
  /// side.
  func noticeClientEnd() { if stream?.hasClientEnded == true { clientDidEnd() } }

  package func clientDidLeave() {
    guard stream != nil else { return }
    if let handler, handler.goesOnWithoutClient() { return }
    if case .waiting = progress.state {
      setStatus(499)
      log(.info, "client prematurely closed connection")
    }
    end(.clientLeft)
  }

  /// For too long, no byte of the body has arrived, or the client has taken no byte of the response.
  package func deadlinePassed() {
    if case .waiting = progress.state {
      log(.info, "client timed out (110: Connection timed out) while sending request body")
      return failDuringBody(.timedOut)
    }
    log(.info, "client timed out (110: Connection timed out) while sending to client")
    end(.clientTimedOut)
  }

  @inline(never)
  func answersDenied(_ location: LiveLocation) -> Bool {
    guard isDenied(by: location) else { return false }
    // `error_page 403 =200 …` can lead here too, but a denial must not have the status 200.
    overrideStatus(nil)
    fail(ErrorResponse(403))
    return true
  }

  // MARK: Rewriting

  package func redirectUnlessBroken(status: Int, to target: [UInt8]) -> StepOutcome {
    if variables.isBroken { return failBroken(.next) }
    redirect(status: status, to: target)
    return .responded
  }

  package func failPattern(_ pattern: RegularExpression) -> StepOutcome {
    log(.error, "the regular expression \"\(pattern.pattern)\" gave up on this text")
    return .fail(ErrorResponse(500))
  }

  /// The outcome of a step that used a variable which could not be computed. No access may rest on its value.
  package func failBroken(_ outcome: StepOutcome) -> StepOutcome {
    setBroken(false)
    switch outcome {
    case .responded, .fail: return outcome
    // What a step waits for rests on the value too: `fail` gives it up.
    default: return .fail(ErrorResponse(500))
    }
  }

  /// The request for the upstream can't be built: a template made a bad one, or a variable could not be computed.
  package func failUnsendable() {
    log(variables.isBroken ? .error : .info, "the request for the upstream would not be a valid one")
    let code = variables.isBroken ? 500 : 400
    setBroken(false)
    fail(ErrorResponse(code))
  }

  /// The request was redirected too often.
  func endCycle(_ what: String) {
    log(.error, "rewrite or internal redirection cycle while \(what)")
    answerPage(status: 500)
  }

  // MARK: The error log

  /// `, request: "GET / HTTP/1.1", upstream: "https://127.0.0.1:443", host: "a.test"`
  func appendRequest(to text: inout ByteBuffer) {
    var line = ByteBuffer()
    append(.simple(.request), to: &line)
    if !line.isEmpty {
      text.append(", request: \"")
      LogEscape.default(line.readable, &text)
      text.append("\"")
    }
    if isSubrequest {
      text.append(", subrequest: \"")
      LogEscape.default(target.uri.readable, &text)
      text.append("\"")
    }
    handler?.appendParticulars(to: &text)
    if !head.host.isEmpty {
      text.append(", host: \"")
      LogEscape.default(head.bytes.readable[head.host], &text)
      text.append("\"")
    }
  }
}
