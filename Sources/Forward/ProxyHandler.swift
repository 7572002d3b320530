import Bytes
public import HTTP
import Observability
import TLS
public import Traffic
import Transport
public import Upstream

/// `proxy_pass`: sends the request to an upstream, and the upstream's response to the client.
///
///     start ─► user, group ─► body ─► attempt ─► head ─► body ─► end
///                               ▲        │ failure
///                               └─ retry ┘
/// A worker reuses its handlers for later exchanges (`SpareHandlers`).
public final class ProxyHandler: UpstreamHandler {
  // Not retained, as `transactionRef`, which is the same exchange.
  @exclusivity(unchecked) private var exchangeRef: Unmanaged<Exchange>?
  /// What features do with the exchange; empty for most.
  @exclusivity(unchecked) private var hooks: [ExchangeHook] = []
  private let sender = RequestBodySender()
  /// Whether the client has left and the request continues without the client (`proxy_ignore_client_abort`).
  @exclusivity(unchecked) private var isClientGone = false
  /// How many lines the error log has of what the upstream says in the exchange.
  @exclusivity(unchecked) private var heard = 0
  /// Whether the exchange has gone on without this handler, as to an error page.
  @exclusivity(unchecked) private var isCancelled = false

  public override func recycle() {
    if attempt.isUnderWay { cancel() }
    if !hooks.isEmpty { hooks.removeAll(keepingCapacity: true) }
    isClientGone = false
    isCancelled = false
    heard = 0
    sender.dropCopy()
    exchangeRef = nil
    forget()
    borrowing(spares) { $0.giveBack(self) }
  }

  public override func cancel() {
    isCancelled = true
    attempt.abandon()
  }

  public override func connectionUser(_ pass: CompiledPass) -> (any AnyObject & Sendable)? {
    super.connectionUser(pass) ?? (hooks.isEmpty ? nil : hooks.lazy.compactMap { $0.connectionUser }.first)
      ?? (exchange.map { pass.needsOwnSession($0) } == true ? OwnSession() : nil)
  }

  // MARK: Hooks

  private var sendsCredentials: Bool { !hooks.isEmpty && hooks.contains { $0.sendsCredentials } }
  /// Whether the request goes out as HEAD, whatever its method is.
  package var isProbe: Bool { !hooks.isEmpty && hooks.contains { $0.isProbe } }
  /// Whether the request goes out without its body.
  package var isBodiless: Bool { !hooks.isEmpty && hooks.contains { $0.isBodiless } }

  // MARK: Begin

  package var exchange: Exchange? { exchangeRef?.takeUnretainedValue() }

  package func serve(_ exchange: Exchange) {
    exchangeRef = Unmanaged.passUnretained(exchange)
    assume(exchange)
  }

  /// Runs `body` for the exchange in progress, if there is one.
  @inline(__always)
  private func serve<Value>(_ body: (Exchange, CompiledPass) -> Value) -> Value? {
    guard let exchangeRef, let passRef else { return nil }
    return exchangeRef._withUnsafeGuaranteedRef { exchange in
      passRef._withUnsafeGuaranteedRef { pass in body(exchange, pass) }
    }
  }

  public override func start(_ exchange: Exchange) {
    serve(exchange)
    _ = serve { start($0, $1) }
  }

  private func start(_ exchange: Exchange, _ pass: CompiledPass) {
    if !pass.requestHooks.isEmpty {
      do throws(ErrorResponse) { try begin(pass.requestHooks, exchange) } catch { return exchange.fail(error) }
    }
    if pass.group != nil { return takeBody(exchange, pass) }
    do throws(DynamicTarget.Refusal) { try settleTarget(exchange, pass) } catch { return error.answer(exchange) }
    let question = dynamic?.find(for: exchange) { [self] group in
      dynamic?.group = group
      takeBody(exchange, pass)
    }
    if let question { dynamic?.keep(question) }
  }

  private func begin(_ all: [RequestHook], _ exchange: Exchange) throws(ErrorResponse) {
    for hook in all {
      if let hook = try hook.begin(exchange, self) { hooks.append(hook) }
    }
  }

  private func takeBody(_ exchange: Exchange, _ pass: CompiledPass) {
    var mayAskTwice = false
    if !hooks.isEmpty {
      for hook in hooks where hook.takeBody(exchange) { return }
      mayAskTwice = hooks.contains { $0.mayAskTwice }
    }
    guard let kept = sender.plan(exchange, pass, isChallenged: mayAskTwice) else { return tryNext(exchange, pass) }
    exchange.collectBody(in: kept)
  }

  // MARK: The request's body

  public override func admits(_ count: Int, in kept: RequestBody) -> Bool {
    guard !hooks.isEmpty, let exchange else { return true }
    return hooks.allSatisfy { $0.admits(count, in: kept, exchange) }
  }

  public override func requestBody(_ bytes: UnsafeRawBufferPointer) {
    if let exchange { sender.send(bytes, exchange, attempt.stream) }
  }

  public override func requestBodyDidEnd(_ trailers: Trailers?) {
    guard let exchange, let pass else { return }
    switch exchange.body.state {
    case .collected(let kept):
      for hook in hooks where hook.take(collected: kept, exchange) { return }
      tryNext()
    case .streamed:
      // Some servers treat trailers as header fields, so a field that the configuration sets must not come from
      // trailers.
      let passed = trailers?.removing { pass.replaced.contains($0, in: $1) }
      sender.noteEnd(passed)
      attempt.stream?.requestDidEnd(passed)
    case .none, .held, .collecting, .streaming: break
    }
  }

  override func upstreamDidDrain() {
    guard let exchange, let stream = attempt.stream else { return }
    guard case .tunnel = exchange.progress.state else { return sender.upstreamDidDrain(exchange, stream) }
    if isClientGone { tunnelClientDidEnd() } else { exchange.stream?.resumeBody() }
  }

  // MARK: Attempts

  package func tryNext(_ exchange: Exchange, _ pass: CompiledPass, again: Int? = nil) {
    if hooks.isEmpty, !pass.needsOwnSession(exchange), pass.begin(attempt, again: again) { return }
    connect(exchange, pass, again: again)
  }

  /// Tries the next server, or with `again` the same one over a new connection.
  package func tryNext(again: Int? = nil) { _ = serve { tryNext($0, $1, again: again) } }

  public override func attemptDidBegin() {
    if hooks.isEmpty { return }
    for hook in hooks { hook.attemptDidBegin() }
  }

  public override func attemptDidOpen(_ stream: UpstreamStream) { _ = serve { attemptDidOpen(stream, $0, $1) } }

  private func attemptDidOpen(_ stream: UpstreamStream, _ exchange: Exchange, _ pass: CompiledPass) {
    let session = stream.session
    if session.trustOutcome != .none, !stream.isOnKeptSession { UpstreamFailureLog.noteHandshake(session, exchange) }
    if !hooks.isEmpty {
      for hook in hooks where !hook.prepare(exchange, stream) { return }
    }
    sendRequest(stream, exchange, pass)
  }

  /// A hook no longer waits.
  package func sendRequest(_ stream: UpstreamStream) { _ = serve { sendRequest(stream, $0, $1) } }

  private func sendRequest(_ stream: UpstreamStream, _ exchange: Exchange, _ pass: CompiledPass) {
    attempt.body = pass.ownBody(exchange)
    guard borrowing(attempt.outgoing, { RequestRewrite.build($0, of: exchange, self, pass) }) else {
      return exchange.failUnsendable()
    }
    if !hooks.isEmpty, !authorize(stream, exchange, pass) { return }
    if pass.mayOwnConnection(exchange), !sendsCredentials, ConnectionOwnership.isOfOneClient(attempt.outgoing) {
      stream.session.isOfOneClient = true
    }
    attempt.requestBegins()
    sendHead(exchange, pass, stream)
    sender.begin(exchange, stream, attempt.body)
  }

  /// Asks the hooks. Returns false if the request itself is not to be sent now.
  private func authorize(_ stream: UpstreamStream, _ exchange: Exchange, _ pass: CompiledPass) -> Bool {
    for hook in hooks {
      switch hook.authorize(exchange, stream) {
      case .request: break
      case .headAlone:
        sendHead(exchange, pass, stream)
        stream.requestDidEnd()
        return false
      case .nothing: return false
      }
    }
    return true
  }

  /// Sends the head, and wipes the buffers that held credentials.
  private func sendHead(_ exchange: Exchange, _ pass: CompiledPass, _ stream: UpstreamStream) {
    let method = RequestRewrite.method(exchange, self, pass)
    borrowing(attempt.outgoing) { head in
      borrowing(worker) { stream.send(head: head, pass.settings.version, method, scratch: &$0.scratch) }
    }
    guard sendsCredentials else { return }
    worker.scratch.wipe()
    attempt.wipeHead()
  }

  /// Sends the next request after a challenge: over `stream`, or over another session if `stream` is nil.
  @inline(never)
  override func mayAskAgain(_ stream: UpstreamStream?) {
    guard let exchange, let asked = hooks.first(where: { $0.mayAskTwice }) else { return }
    if let stream {
      asked.willUseSameConnection()
      return attempt.attemptDidOpen(stream)
    }
    attempt.leave()
    guard asked.mayUseAnotherConnection(exchange) else { return }
    tryNext(again: attempt.lastServer)
  }

  // MARK: The response

  override func cut(_ refusal: UpstreamRefusal) {
    guard let exchange else { return }
    guard exchange.progress.state == .waiting else { return exchange.end(.upstreamBroke) }
    attempt.abandon()
    attemptDidFail(.tls(refusal.description), onKept: false)
  }

  override func interimHead(_ response: ResponseHead) {
    guard let exchange else { return }
    for hook in exchange.location.interimHooks { hook.take(response, of: exchange) }
  }

  override func responseHead(_ response: ResponseHead) -> Bool { serve { responseHead(response, $0, $1) } ?? false }

  private func responseHead(_ response: ResponseHead, _ exchange: Exchange, _ pass: CompiledPass) -> Bool {
    sender.dropCopy()
    if !hooks.isEmpty, let stream = attempt.stream {
      for hook in hooks {
        switch hook.take(response, exchange, stream) {
        case .isForClient: break
        case .discard: return true
        case .answered: return false
        }
      }
    }
    if response.status == 401 || response.status == 407, !sendsCredentials, ConnectionOwnership.isOfOneClient(response)
    {
      attempt.stream?.session.isOfOneClient = true
    }
    if response.status == 101 { return switchProtocols(response, exchange, pass) }
    if triesNext(for: response, exchange, pass) { return false }
    if ResponseRewrite.failUnopened(response, exchange) { return false }
    if ResponseRewrite.intercepts(response, exchange, pass) { return false }
    if response.present.contains(.xAccelRedirect), AccelRedirect.follow(response, exchange, pass, attempt) {
      return false
    }
    if !hooks.isEmpty, ResponseRewrite.mayHaveBody(exchange, response),
      let holder = hooks.first(where: { $0.holdsResponses })
    {
      return holder.hold(response, exchange)
    }
    sendHead(of: response, exchange, pass)
    return true
  }

  /// `own`: bytes of the body that a hook sends in place of the upstream's.
  package func sendHead(of response: ResponseHead, _ exchange: Exchange, _ pass: CompiledPass, own: Int? = nil) {
    // Fields of `add_header` can contain `$status`.
    exchange.setStatus(Int(ResponseRewrite.status(for: exchange, response)))
    ResponseRewrite.build(exchange.response, of: exchange, response, pass, own: own)
    if isClientGone { exchange.stream?.closeAfterResponse() }
    if !pass.balances.isEmpty { GroupChoice.bind(exchange, group, attempt.lastServer, status: response.status) }
    exchange.sendHead()
  }

  override func responseBody(_ bytes: UnsafeRawBufferPointer) { _ = serve { responseBody(bytes, $0, $1) } }
  private func responseBody(_ bytes: UnsafeRawBufferPointer, _ exchange: Exchange, _ pass: CompiledPass) {
    if !hooks.isEmpty, take(bytes, exchange) { return }
    sendBody(bytes, exchange)
    watchClient(exchange, pass)
  }

  /// Returns whether a hook has taken the bytes.
  private func take(_ bytes: UnsafeRawBufferPointer, _ exchange: Exchange) -> Bool {
    for hook in hooks {
      if hook.isHolding {
        hook.hold(bytes, exchange)
        return true
      }
      guard hook.isDiscarding else { continue }
      if !hook.discard(bytes.count) { leaveForAnother() }
      return true
    }
    return false
  }

  package func sendBody(_ bytes: UnsafeRawBufferPointer, _ exchange: Exchange) {
    if !isClientGone { exchange.sendBody(bytes) }
  }

  /// Leaves a session whose challenge has too large a body to read. The next request goes over another session.
  package func leaveForAnother() {
    attempt.abandon()
    mayAskAgain(nil)
  }

  override func upstreamDidSay(_ text: UnsafeRawBufferPointer, _ wire: UpstreamWire) -> Bool {
    serve { exchange, pass in
      UpstreamFailureLog.tell(text, wire, exchange, &heard)
      return pass.requestHooks.allSatisfy { $0.accepts(text) }
    } ?? true
  }

  override func upstreamDidExceed() {
    exchange?.log(.warn, "upstream sent more data than specified in \"Content-Length\" header while reading upstream")
  }

  override func responseDidPump() { _ = serve { watchClient($0, $1) } }
  /// Pauses the upstream while too many bytes wait for the client.
  private func watchClient(_ exchange: Exchange, _ pass: CompiledPass) {
    guard exchange.waitingBytes > pass.bufferTotal, let client = exchange.stream else { return }
    attempt.stream?.pause()
    client.watchSending(exchange.location.limits.sendTimeout)
  }

  public override func clientDidDrain() { attempt.resume() }
  public override func pauseSource() { attempt.stream?.pause() }

  /// Ends the response. `finish` comes last, because the next request can then use the same session at once.
  override func responseDidEnd(_ trailers: Trailers?) { _ = serve { responseDidEnd(trailers, $0, $1) } }
  private func responseDidEnd(_ trailers: Trailers?, _ exchange: Exchange, _ pass: CompiledPass) {
    let server = attempt.lastServer
    if pass.withSettledGroup({ UpstreamFailureLog.noteAnswer(exchange, $0, server) }) == nil {
      UpstreamFailureLog.noteAnswer(exchange, group, server)
    }
    if !pass.balances.isEmpty { GroupChoice.bindAtEnd(exchange, group, attempt.lastServer) }
    if !hooks.isEmpty, let holder = hooks.first(where: { $0.isHolding }) { return holder.release(exchange) }
    finish(exchange, pass.settings.response.passesTrailers ? trailers : nil)
  }

  package func finish(_ exchange: Exchange, _ trailers: Trailers? = nil) {
    isClientGone ? exchange.end(.clientLeft) : exchange.complete(trailers)
  }

  // MARK: Failures

  public override func attemptDidFail(_ failure: AttemptFailure, onKept: Bool) {
    guard let exchange else { return }
    if case .tunnel = exchange.progress.state { return exchange.end(.upstreamBroke) }
    if !hooks.isEmpty, hooks.contains(where: { $0.isDiscarding }) { return mayAskAgain(nil) }
    attempt.noteStatus(of: failure)
    if case .tls = failure, let last = attempt.records.last { AttemptCount.judged(last, group, worker.counters) }
    UpstreamFailureLog.tell(failure, exchange, group, attempt.lastServer, attempt.keptWords(of: failure))
    if case .streaming = exchange.progress.state { return exchange.breakOff() }
    attempt.leave()
    let decision = decide(failure.condition, exchange, onKept: onKept)
    if decision != .giveUp { sender.willSendAgain(exchange) }
    switch decision {
    case .sameServer: tryNext(again: attempt.lastServer)
    case .nextServer: tryNext()
    case .giveUp: exchange.fail(ErrorResponse(failure.status(repeatsRefusal: attempt.repeatsRefusal)))
    }
  }

  /// `proxy_next_upstream http_502 …`: the response counts as a failure and another server is tried.
  private func triesNext(for response: ResponseHead, _ exchange: Exchange, _ pass: CompiledPass) -> Bool {
    let condition = RetryConditions(status: response.status)
    guard !condition.isEmpty, pass.settings.retry.conditions.contains(condition) else { return false }
    guard decide(condition, exchange, onKept: false) == .nextServer else { return false }
    attempt.abandon(isFailure: response.status >= 500)
    tryNext()
    return true
  }

  @inline(never)
  private func decide(_ condition: RetryConditions, _ exchange: Exchange, onKept: Bool) -> RetryPolicy.Decision {
    guard let pass, let group else { return .giveUp }
    let situation = attempt.situation(
      RequestRewrite.method(exchange, self, pass), isReplayable: exchange.body.isReplayable,
      hasBegun: exchange.progress.state != .waiting, onKept: onKept, keepsBody: sender.keepsStreamedBody)
    return RetryPolicy(settings: pass.settings.retry, servers: group.usedServers).decide(condition, situation)
  }

  // MARK: Upgrade (101): bytes both ways, as they are

  private func switchProtocols(_ response: ResponseHead, _ exchange: Exchange, _ pass: CompiledPass) -> Bool {
    // A client of HTTP/1.0 knows no 101 (RFC 9110 §15.2).
    guard UpgradeChoice.isAsked(response, by: exchange.head, in: attempt.outgoing), exchange.head.mayBecomeTunnel,
      !exchange.isSubrequest, pass.ownBodies == nil
    else {
      exchange.log(.error, "upstream switched protocols without being asked")
      exchange.fail(ErrorResponse(502))
      return false
    }
    UpstreamFailureLog.noteAnswer(exchange, group, attempt.lastServer)
    sendHead(of: response, exchange, pass)
    exchange.becomeTunnel()
    attempt.stream?.becomeTunnel()
    exchange.stream?.resumeBody()
    return false
  }

  override func tunnelFromUpstream(_ bytes: UnsafeRawBufferPointer) {
    _ = serve {
      $0.sendTunnel(bytes); watchClient($0, $1)
    }
  }

  public override func tunnelBytes(_ bytes: UnsafeRawBufferPointer) { requestBody(bytes) }

  /// Sends the client's last bytes to the upstream, then ends the tunnel, as nginx does.
  public override func tunnelClientDidEnd() {
    isClientGone = true
    attempt.stream?.flush()
    guard attempt.stream?.waitingBytes ?? 0 == 0 else { return }
    exchange?.complete()
  }

  override func tunnelUpstreamDidEnd(inGoodOrder: Bool) {
    if inGoodOrder { exchange?.complete() } else { exchange?.end(.upstreamBroke) }
  }

  // MARK: The client

  public override var endsWithClient: Bool {
    guard let pass, !pass.settings.request.ignoresClientAbort, !isCancelled, !attempt.hasLedElsewhere else {
      return false
    }
    // Once the upstream has said all, only the client, a rate or a filter is slow.
    return attempt.isUnderWay || exchange?.progress.state == .waiting
  }

  /// `proxy_ignore_client_abort`: the handler completes a request that was read in full.
  public override func goesOnWithoutClient() -> Bool {
    guard let pass, pass.settings.request.ignoresClientAbort, attempt.stream != nil,
      exchange?.stream?.isBodyRead == true
    else {
      return false
    }
    isClientGone = true
    exchange?.stream?.closeAfterResponse()
    return true
  }

  // MARK: Variables

  public override var isCompressible: Bool { pass?.isCompressible ?? true }
  public override var upstreamHead: ResponseHead? { attempt.shownHead }
  public override var upstreamTrailers: Trailers? { attempt.trailers }

  public override func hides(_ field: Field, in bytes: UnsafeRawBufferPointer) -> Bool {
    pass?.hidden.contains(field, in: bytes) ?? false
  }
}
