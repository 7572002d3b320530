import Bytes
import Crypto
import HTTP
import Observability
import TLS
import Transport
import Upstream
import UpstreamAuth

/// `proxy_pass`: asks an upstream, and hands its response to the client.
///
///     start ─► user, group ─► body ─► attempt ─► head ─► body ─► end
///                               ▲        │ failure
///                               └─ retry ┘
///
/// Used again from exchange to exchange (`Worker.takeProxyHandler`).
final class ProxyHandler: ContentHandler {
  unowned(unsafe) let worker: Worker
  // Uncounted: the exchange owns its handler.
  private(set) unowned(unsafe) var exchange: Exchange?
  @exclusivity(unchecked) private(set) var pass: LiveProxyPass?
  let attempt: UpstreamAttempt
  /// Of a `proxy_pass` with variables, with `$proxy_host` and `$proxy_port` of its target.
  private var dynamic: (group: UpstreamGroup?, host: [UInt8], port: [UInt8])?
  /// nil: an upstream's 401 is the client's.
  @exclusivity(unchecked) private(set) var authentication: UpstreamAuthentication?
  /// nil without `message_envelope`.
  @exclusivity(unchecked) private(set) var envelope: EnvelopeFilter?
  /// Bytes of the request's body that were read from its file.
  private var fileOffset: UInt64 = 0
  /// The client has left, and the upstream is asked all the same (`proxy_ignore_client_abort`).
  @exclusivity(unchecked) private var isClientGone = false

  /// Bytes of a streamed body that may wait for an upstream.
  private static let requestWatermark = 128 * 1024
  /// Less than the watermark: what one piece leaves waiting is seen, and timed, with the next.
  private static let filePiece = 64 * 1024
  private static let filePerTurn: UInt64 = 1 << 20
  /// Memory that one kept body may take where `client_body_buffer_size` is not said.
  private static let adaptiveAllowance = 1 << 20

  init(worker: Worker) {
    self.worker = worker
    attempt = UpstreamAttempt(worker)
    super.init()
    attempt.handler = self
  }

  var now: UInt64 { worker.loop.now }

  /// For the next `start`.
  func prepare(_ pass: LiveProxyPass) { self.pass = pass }

  override func recycle() {
    cancel()
    exchange = nil
    pass = nil
    if dynamic != nil { dynamic = nil }
    if authentication != nil { authentication = nil }
    if envelope != nil { envelope = nil }
    fileOffset = 0
    isClientGone = false
    attempt.reset()
    worker.giveBack(self)
  }

  override func cancel() { attempt.abandon() }

  /// Whose server is asked.
  var group: UpstreamGroup? { pass?.group ?? dynamic?.group }

  // MARK: Begin

  override func start(_ exchange: Exchange) {
    guard let pass else { return }
    self.exchange = exchange
    if let asked = pass.authentication {
      do throws(Failure) {
        authentication = UpstreamAuthentication(asked, try UpstreamAuthentication.user(for: exchange, asked), self)
      } catch {
        return exchange.fail(error)
      }
    }
    if let envelope = pass.envelope, let settings = pass.settings.envelope {
      self.envelope = EnvelopeFilter(envelope, settings, self)
    }
    if pass.group != nil { return takeBody(exchange, pass) }
    findGroup(exchange, pass)
  }

  /// `proxy_pass` with variables: the group is that of the authority in the target.
  private func findGroup(_ exchange: Exchange, _ pass: LiveProxyPass) {
    guard let template = pass.targetTemplate else { return exchange.fail(Failure(500)) }
    let target = String(decoding: template.bytes(exchange), as: UTF8.self)
    let authority = String(target.prefix { $0 != "/" && $0 != "?" })
    let defaultPort = pass.settings.scheme.defaultPort
    let named = DynamicGroups.variables(of: authority, defaultPort: defaultPort)
    dynamic = (nil, named.host, named.port)
    let serial = exchange.serial
    exchange.session.live.dynamicGroups.find(authority, defaultPort: defaultPort) { [self] group in
      // The object may be in another exchange's service.
      guard self.exchange === exchange, serial == exchange.serial else { return }
      guard let group else {
        exchange.tellOfRepeated(.error, "\(authority) could not be resolved")
        return exchange.fail(Failure(502))
      }
      dynamic?.group = group
      takeBody(exchange, pass)
    }
  }

  // MARK: The request's body

  private func takeBody(_ exchange: Exchange, _ pass: LiveProxyPass) {
    if let envelope { return envelope.takeBody(exchange) }
    if case .none = exchange.body.state, exchange.head.framing == .none { return tryNext() }
    guard let stream = exchange.stream else { return }
    // Kept from before: an error page of a named location sends it on.
    if case .collected = exchange.body.state, pass.settings.passesRequestBody { return tryNext() }
    let hasBody = exchange.head.framing != .none && exchange.redirection.keepsBody && !stream.isBodyRead
    guard hasBody, pass.settings.passesRequestBody else {
      if hasBody { stream.discardBody() }
      exchange.body.state = .none
      return tryNext()
    }
    // A chunked body has no length to announce to HTTP/1.0: it must be whole first.
    guard
      pass.settings.requestBuffering || (exchange.head.framing == .chunked && !pass.settings.speaksHTTP11)
        || keepsForChallenge(exchange)
    else {
      exchange.body.state = .held
      return tryNext()
    }
    let allowance = exchange.location.limits.bodyBufferSize
    exchange.collectBody(
      in: allowance.map { RequestBody(allowance: $0) }
        ?? RequestBody(allowance: Self.adaptiveAllowance, gauge: worker.bodies))
  }

  /// A body that fits `client_body_buffer_size` is kept, so that it can be sent again with the answer to a challenge.
  private func keepsForChallenge(_ exchange: Exchange) -> Bool {
    guard authentication != nil, case .length(let length) = exchange.head.framing else { return false }
    return length <= UInt64(max(0, exchange.location.limits.bodyBufferSize ?? Self.adaptiveAllowance))
  }

  override func admits(_ count: Int, in kept: RequestBody) -> Bool {
    guard let envelope, let exchange else { return true }
    return envelope.admits(count, in: kept, exchange)
  }

  override func requestBody(_ bytes: UnsafeRawBufferPointer) {
    guard let stream = attempt.stream else { return }
    stream.send(body: bytes)
    if stream.waitingBytes > Self.requestWatermark { exchange?.stream?.pauseBody() }
  }

  override func requestBodyDidEnd(_ trailers: Trailers?) {
    guard let exchange, let pass else { return }
    switch exchange.body.state {
    case .collected(let kept):
      if let envelope { return envelope.open(kept, exchange) }
      tryNext()
    case .streamed:
      // A field that is set here does not come in by the trailers: there are servers that take them for header fields.
      attempt.stream?.requestDidEnd(trailers?.removing { pass.replaced.contains($0, in: $1) })
    case .none, .held, .collecting, .streaming: break
    }
  }

  /// The next pieces of a body that is in a file, as the upstream takes them; not all at once, for others wait too.
  private func sendFile(_ kept: RequestBody) {
    worker.scratch.removeAll()
    worker.scratch.reserve(Self.filePiece)
    let end = fileOffset &+ Self.filePerTurn
    while let stream = attempt.stream, stream.waitingBytes < Self.requestWatermark {
      if fileOffset >= end { return stream.continueLater() }
      let piece = UnsafeMutableRawBufferPointer(rebasing: worker.scratch.writable[..<Self.filePiece])
      guard let count = kept.read(at: fileOffset, into: piece) else {
        exchange?.log(.crit, "a request body can't be read from its temporary file")
        exchange?.failDuringBody(Failure(500))
        return
      }
      if count == 0 { return stream.requestDidEnd() }
      fileOffset &+= UInt64(count)
      stream.send(body: UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(piece)[..<count]))
      stream.flush()
    }
  }

  func upstreamDidDrain() {
    guard let exchange else { return }
    switch exchange.body.state {
    case .collected(let kept) where kept.isInFile: sendFile(kept)
    case .streaming: exchange.stream?.resumeBody()
    default: break
    }
    guard self.exchange === exchange, case .tunnel = exchange.progress.state else { return }
    if isClientGone { tunnelClientDidEnd() } else { exchange.stream?.resumeBody() }
  }

  // MARK: Attempts

  /// Tries the next server, or with `again` the same one over a new connection.
  func tryNext(again: Int? = nil) {
    guard let exchange, let pass, let group else { return }
    if let identity = pass.identity { return attempt(exchange, pass, group, presenting: identity, again) }
    if let trust = pass.trust, boundUser == nil { return attempt.begin(group, trust, pass.attempt, again: again) }
    let trust = UpstreamTrust(context: pass.context, name: pass.nameForTLS(exchange), boundTo: boundUser)
    attempt.begin(group, trust, pass.attempt, again: again)
  }

  /// As whom a connection is used, where that is of a connection (NTLM).
  private var boundUser: (any AnyObject & Sendable)? {
    guard let authentication, authentication.live.bindsConnections else { return nil }
    return authentication.user
  }

  /// With a certificate that this request names. Without it no upstream is asked.
  private func attempt(
    _ exchange: Exchange, _ pass: LiveProxyPass, _ group: UpstreamGroup, presenting identity: LiveIdentity, _ again: Int?
  ) {
    guard let base = pass.context else { return exchange.fail(Failure(500)) }
    let source: CertificateSource
    do throws(MaterialError) { source = try identity.source(exchange) } catch {
      return refuseIdentity(error.message, exchange)
    }
    let serial = exchange.serial
    exchange.session.live.identities.find(base, source) { [self] outcome in
      // The client may be gone, and this object in another exchange's service.
      guard self.exchange === exchange, serial == exchange.serial else { return }
      switch outcome {
      case .success(let context):
        let trust = UpstreamTrust(context: context, name: pass.nameForTLS(exchange), boundTo: boundUser)
        attempt.begin(group, trust, pass.attempt, again: again)
      case .failure(let refusal): refuseIdentity(refusal.reason, exchange)
      }
    }
  }

  private func refuseIdentity(_ reason: String, _ exchange: Exchange) {
    exchange.tellOfRepeated(.error, "no certificate to present to the upstream: \(reason)")
    exchange.fail(Failure(502))
  }

  func attemptDidBegin() { envelope?.forgetResponse() }

  func attemptDidOpen(_ stream: UpstreamStream) {
    guard let exchange, let pass else { return }
    let session = stream.session
    if session.trustOutcome != .none, !session.isKept {
      worker.metrics.upstreams.count(session.trustOutcome)
      // Once a handshake: the variable tells those that use a kept session.
      if session.trustOutcome == .reportOnlyMismatch, let warning = session.peer.warning {
        exchange.log(.warn, "\(warning) while SSL handshaking to upstream")
      }
    }
    authentication?.choose(exchange, stream)
    guard RequestRewrite.build(attempt.outgoing, of: exchange, self, pass) else {
      exchange.log(.error, "the request for the upstream would not be a valid one")
      return exchange.fail(Failure(400))
    }
    if let authentication {
      switch authentication.authorize(exchange, stream) {
      case .sendRequest: break
      case .sendHeadAlone:
        sendHead(exchange, pass)
        return stream.requestDidEnd()
      case .answered: return
      }
    } else if exchange.head.present.contains(.authorization), exchange.head.authorizesConnection {
      session.isOfOneClient = true
    }
    sendHead(exchange, pass)
    sendBody(exchange, stream)
  }

  /// Credentials of ours are in no buffer afterwards.
  private func sendHead(_ exchange: Exchange, _ pass: LiveProxyPass) {
    attempt.sendHead(
      pass.settings.speaksHTTP11 ? .http11 : .http10, RequestRewrite.method(exchange, self, pass),
      scratch: &worker.scratch)
    guard authentication != nil else { return }
    worker.scratch.wipe()
    let isUpgrade = attempt.outgoing.asksForUpgrade
    attempt.outgoing.wipe()
    attempt.outgoing.asksForUpgrade = isUpgrade
  }

  private func sendBody(_ exchange: Exchange, _ stream: UpstreamStream) {
    switch exchange.body.state {
    case .none, .streamed: stream.requestDidEnd()
    case .collected(let kept):
      if kept.isInFile {
        fileOffset = 0
        sendFile(kept)
      } else {
        stream.send(body: kept.memory.readable)
        stream.requestDidEnd()
      }
    case .held: exchange.streamBody()
    case .collecting, .streaming: break
    }
  }

  /// A session that carries another request after a challenge, or none.
  func mayAskAgain(_ stream: UpstreamStream?) {
    guard let authentication, let exchange else { return }
    if let stream {
      authentication.isSameConnection = true
      return attempt.attemptDidOpen(stream)
    }
    attempt.leave()
    guard authentication.mayUseAnotherConnection() else { return authentication.refuse(.connectionNotKept, exchange) }
    tryNext(again: attempt.lastServer)
  }

  // MARK: The response

  func responseHead(_ response: ResponseHead) -> Bool {
    guard let exchange, let pass, let stream = attempt.stream else { return false }
    if let authentication {
      switch authentication.take(response, exchange, stream) {
      case .isForClient: break
      case .discard: return true
      case .answered: return false
      }
    }
    if response.status == 101 { return switchProtocols(response, exchange, pass, stream) }
    if triesNext(for: response, exchange, pass) { return false }
    if pass.settings.interceptsErrors, response.status >= 300, exchange.redirection == .none,
      exchange.location.settings.errorPages.contains(where: { $0.status == Int(response.status) })
    {
      exchange.fail(Failure(Int(response.status)))
      return false
    }
    if let envelope, ResponseRewrite.mayHaveBody(exchange, response) { return envelope.hold(response, exchange) }
    sendHead(of: response, exchange, pass)
    return true
  }

  /// `sealed`: bytes of the envelope that follows.
  func sendHead(of response: ResponseHead, _ exchange: Exchange, _ pass: LiveProxyPass, sealed: Int? = nil) {
    // Fields that are added may say it.
    exchange.progress.status = Int(ResponseRewrite.status(for: exchange, response))
    ResponseRewrite.build(exchange.response, of: exchange, response, pass, sealed: sealed)
    if isClientGone { exchange.stream?.closeAfterResponse() }
    exchange.sendHead()
  }

  func responseBody(_ bytes: UnsafeRawBufferPointer) {
    guard let exchange else { return }
    if let envelope, envelope.isHolding { return envelope.hold(bytes, exchange) }
    if let authentication, authentication.isDiscarding {
      if !authentication.discard(bytes.count) { leaveForAnother() }
      return
    }
    sendBody(bytes)
    responseDidPump()
  }

  func sendBody(_ bytes: UnsafeRawBufferPointer) {
    if !isClientGone { exchange?.sendBody(bytes) }
  }

  /// A challenge with a body that is not worth reading: the next request goes over another session.
  func leaveForAnother() {
    attempt.abandon()
    mayAskAgain(nil)
  }

  func responseDidPump() {
    guard let exchange, let client = exchange.stream, client.waitingBytes > pass?.settings.bufferTotal ?? 65536 else {
      return
    }
    attempt.stream?.pause()
    client.watchSending(exchange.location.limits.sendTimeout)
  }

  override func clientDidDrain() { attempt.stream?.resume() }

  /// The session serves another exchange only after this one has said all that it has to say of it.
  func responseDidEnd(_ trailers: Trailers?) {
    guard let exchange else { return }
    noteAnswer(exchange)
    if let envelope, envelope.isHolding { return envelope.seal(exchange) }
    finish(exchange, trailers)
  }

  func finish(_ exchange: Exchange, _ trailers: Trailers? = nil) {
    if isClientGone { exchange.end(.clientLeft) } else { exchange.complete(trailers) }
  }

  // MARK: Failures

  func attemptDidFail(_ failure: AttemptFailure, onKept: Bool) {
    guard let exchange else { return }
    if case .tunnel = exchange.progress.state { return exchange.end(.upstreamBroke) }
    if let authentication, authentication.isDiscarding { return mayAskAgain(nil) }
    attempt.noteStatus(of: failure)
    if case .tls = failure, let trust = attempt.records.last?.trust { worker.metrics.upstreams.count(trust) }
    UpstreamFailureLog.tell(failure, exchange, group, attempt.lastServer)
    if case .streaming = exchange.progress.state { return exchange.end(.upstreamBroke) }
    switch decide(failure.condition, exchange, onKept: onKept) {
    case .sameServer: tryNext(again: attempt.lastServer)
    case .nextServer: tryNext()
    case .giveUp: exchange.fail(Failure(failure.status))
    }
  }

  /// `proxy_next_upstream http_502 …`: the response counts as a failure and another server is tried.
  private func triesNext(for response: ResponseHead, _ exchange: Exchange, _ pass: LiveProxyPass) -> Bool {
    let condition = RetryConditions(status: response.status)
    guard !condition.isEmpty, pass.settings.retry.conditions.contains(condition) else { return false }
    guard decide(condition, exchange, onKept: false) == .nextServer else { return false }
    attempt.abandon(isFailure: response.status >= 500)
    tryNext()
    return true
  }

  private func decide(_ condition: RetryConditions, _ exchange: Exchange, onKept: Bool) -> RetryPolicy.Decision {
    guard let pass, let group else { return .giveUp }
    return RetryPolicy(settings: pass.settings.retry, servers: group.servers.count).decide(
      condition,
      RetryPolicy.Situation(
        method: RequestRewrite.method(exchange, self, pass), requestBegun: attempt.isRequestBegun,
        bodyReplayable: exchange.body.isReplayable, responseBegun: exchange.progress.state != .waiting,
        onKeptConnection: onKept, attempts: attempt.tried.count, deadConnections: attempt.deadConnections,
        elapsed: now &- (attempt.records.first?.beganAt ?? now)))
  }

  /// The server has answered: the error log may say that it does so again.
  @inline(__always)
  private func noteAnswer(_ exchange: Exchange) {
    guard let server = attempt.lastServer, let group, group.hasFailures else { return }
    UpstreamFailureLog.tellRecovery(of: server, in: group, exchange)
  }

  // MARK: Upgrade (101): bytes both ways, as they are

  private func switchProtocols(
    _ response: ResponseHead, _ exchange: Exchange, _ pass: LiveProxyPass, _ stream: UpstreamStream
  ) -> Bool {
    // A client of HTTP/1.0 knows no 101 (RFC 9110 §15.2).
    guard attempt.outgoing.asksForUpgrade, exchange.head.version == .http11, pass.envelope == nil else {
      exchange.log(.error, "upstream switched protocols without being asked")
      exchange.fail(Failure(502))
      return false
    }
    noteAnswer(exchange)
    sendHead(of: response, exchange, pass)
    exchange.becomeTunnel()
    stream.becomeTunnel()
    exchange.stream?.resumeBody()
    return false
  }

  func tunnelFromUpstream(_ bytes: UnsafeRawBufferPointer) {
    exchange?.sendTunnel(bytes)
    responseDidPump()
  }

  override func tunnelBytes(_ bytes: UnsafeRawBufferPointer) { requestBody(bytes) }

  /// What the client said before its end still goes out; then, as with nginx, the tunnel is over.
  override func tunnelClientDidEnd() {
    isClientGone = true
    attempt.stream?.flush()
    guard attempt.stream?.waitingBytes ?? 0 == 0 else { return }
    exchange?.complete()
  }

  func tunnelUpstreamDidEnd(inGoodOrder: Bool) {
    guard inGoodOrder else { exchange?.end(.upstreamBroke); return }
    exchange?.complete()
  }

  // MARK: The client

  /// `proxy_ignore_client_abort`: a request that the upstream has got whole is seen to its end.
  override func goesOnWithoutClient() -> Bool {
    guard let pass, pass.settings.ignoresClientAbort, attempt.stream != nil, exchange?.stream?.isBodyRead == true else {
      return false
    }
    isClientGone = true
    return true
  }

  // MARK: Variables

  override func append(_ variable: SimpleVariable, to output: inout ByteBuffer) {
    switch variable {
    case .proxy_host:
      if let dynamic { output.append(dynamic.host) } else { output.append(string: pass?.settings.host ?? "") }
    case .proxy_port:
      if let dynamic { output.append(dynamic.port) } else { output.append(string: pass?.settings.port ?? "") }
    case .upstream_ssl_spki: output.append(string: attempt.keyHash)
    default: attempt.append(variable, group, to: &output)
    }
  }

  override var upstreamHead: ResponseHead? { attempt.stream == nil ? nil : attempt.finalHead }

  override func hides(_ field: Field, in bytes: UnsafeRawBufferPointer) -> Bool {
    pass?.hidden.contains(field, in: bytes) ?? false
  }

  override func appendParticulars(to text: inout ByteBuffer) {
    guard let pass, let group, let server = attempt.lastServer else { return }
    text.append(string: ", upstream: \"\(pass.settings.scheme.rawValue)://")
    text.append(group.addressTexts[server])
    text.append("\"")
  }
}

extension RetryConditions {
  /// Under which condition an upstream's status falls.
  init(status: UInt16) {
    switch status {
    case 500: self = .http500
    case 502: self = .http502
    case 503: self = .http503
    case 504: self = .http504
    case 403: self = .http403
    case 404: self = .http404
    case 429: self = .http429
    default: self = []
    }
  }
}
