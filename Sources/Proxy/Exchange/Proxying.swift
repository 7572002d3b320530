import Bytes
import HTTP
import Observability
import TLS
import Transport
import Upstream

/// The upstream half of an exchange: `proxy_pass`.
extension Exchange {
  /// Bytes of a streamed body that may wait for an upstream.
  private static let requestBacklog = 128 * 1024
  /// Less than the backlog: what one piece leaves waiting is seen, and timed, with the next.
  private static let filePiece = 64 * 1024
  private static let filePerTurn: UInt64 = 1 << 20
  /// Memory that one kept body may take where `client_body_buffer_size` is not said.
  static let adaptiveAllowance = 1 << 20

  func proxy(_ pass: LiveProxyPass) {
    self.pass = pass
    if passed != nil { passed = nil }
    if dynamicGroup != nil { dynamicGroup = nil }
    if authentication != nil { authentication = nil }
    if let asked = pass.authentication, !takeUser(asked) { return }
    if let group = pass.group { return takeBody(pass, group) }
    guard let template = pass.targetTemplate, let connection else { return fail(Failure(500)) }
    let target = String(decoding: template.bytes(self), as: UTF8.self)
    let authority = String(target.prefix { $0 != "/" && $0 != "?" })
    passed = DynamicGroups.variables(of: authority, defaultPort: pass.settings.scheme.defaultPort)
    let serial = serial
    connection.live.dynamicGroups.find(authority, defaultPort: pass.settings.scheme.defaultPort) { [self] found in
      guard serial == self.serial else { return }
      guard case .success(let group) = found else {
        let reason = if case .failure(.crowded) = found { ": too many names are being looked up" } else { "" }
        tellOfRepeated(.error, "\(authority) could not be resolved\(reason)")
        return fail(Failure(502))
      }
      dynamicGroup = group
      takeBody(pass, group)
    }
  }

  /// Whose server is asked.
  var group: UpstreamGroup? { pass?.group ?? dynamicGroup }

  private func takeBody(_ pass: LiveProxyPass, _ group: UpstreamGroup) {
    if let envelope = pass.envelope { return takeSealedBody(envelope, pass, group) }
    if case .none = body, head.framing == .none { return attempt(pass, group) }
    guard let connection else { return }
    // Kept from before: an error page of a named location sends it on.
    if case .collected = body, pass.settings.passesRequestBody { return attempt(pass, group) }
    let hasBody = head.framing != .none && redirection.keepsBody && !connection.isBodyRead
    guard hasBody, pass.settings.passesRequestBody else {
      if hasBody { connection.discardBody() }
      body = .none
      return attempt(pass, group)
    }
    // A chunked body has no length to announce to HTTP/1.0: it must be whole first.
    if pass.settings.requestBuffering || (head.framing == .chunked && !pass.settings.speaksHTTP11)
      || keepsForAnswer
    {
      let allowance = location.limits.bodyBufferSize
      body = .collecting(
        allowance.map { RequestBody(allowance: $0) }
          ?? RequestBody(allowance: Self.adaptiveAllowance, gauge: worker.bodies))
      continueClient()
      connection.pump()
    } else {
      body = .held
      attempt(pass, group)
    }
  }

  /// 100 to a client that waits for it.
  func continueClient() {
    guard head.expectsContinue, head.version == .http11, let connection else { return }
    let text: StaticString = "HTTP/1.1 100 Continue\r\n\r\n"
    connection.send(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
  }

  // MARK: Attempts

  func upstreamWillBeTried(_ server: Int) {
    tried.insert(server)
    attempts.append(AttemptRecord(server: server, beganAt: worker.loop.now))
  }

  func upstreamDidBegin(_ connection: UpstreamConnection) {
    upstream = connection
    requestBegun = false
    if heldAnswer != nil { heldAnswer = nil }
  }

  func upstreamDidOpen(_ upstream: UpstreamConnection) {
    guard let pass else { return }
    if !attempts.isEmpty {
      attempts[attempts.count - 1].openedAt = worker.loop.now
      attempts[attempts.count - 1].trust = upstream.trustOutcome
    }
    if upstream.trustOutcome != .none, !upstream.isKept { worker.metrics.upstreams.count(upstream.trustOutcome) }
    // Once a handshake: who comes later to a kept connection is told by the variable.
    if upstream.trustOutcome == .reportOnlyMismatch, !upstream.isKept,
      let warning = (upstream.stream as? TLSStream)?.trustResult?.warning
    {
      log(.warn, "\(warning) while SSL handshaking to upstream")
    }
    if let authentication { chooseSending(authentication, upstream) }
    upstream.expect(method: RequestRewrite.method(self, pass))
    guard RequestRewrite.build(outgoing, of: self, pass) else {
      log(.error, "the request for the upstream would not be a valid one")
      dropUpstream()
      return fail(Failure(400))
    }
    if let authentication {
      if !authorize(authentication, pass, upstream) { return }
    } else if head.present.contains(.authorization), authorizesConnection {
      upstream.isOfOneClient = true
    }
    requestBegun = true
    sendRequestHead(pass, upstream)
    switch body {
    case .none, .streamed: upstream.requestDidEnd()
    case .collected(let kept):
      if kept.isInFile {
        fileOffset = 0
        sendFile(kept)
      } else {
        upstream.send(kept.memory.readable)
        upstream.requestDidEnd()
      }
    case .held:
      body = .streaming
      continueClient()
      connection?.pump()
    case .collecting, .streaming: break
    }
  }

  /// The next pieces of a body that is in a file, as the upstream takes them; not all at once, for others wait too.
  private func sendFile(_ kept: RequestBody) {
    worker.scratch.removeAll()
    worker.scratch.reserve(Self.filePiece)
    let end = fileOffset &+ Self.filePerTurn
    while let upstream, upstream.pendingCount < Self.requestBacklog {
      if fileOffset >= end { return upstream.continueLater() }
      let piece = UnsafeMutableRawBufferPointer(rebasing: worker.scratch.writable[..<Self.filePiece])
      guard let count = kept.read(at: fileOffset, into: piece) else {
        log(.crit, "a request body can't be read from its temporary file")
        return failDuringBody(Failure(500))
      }
      if count == 0 { return upstream.requestDidEnd() }
      fileOffset &+= UInt64(count)
      upstream.send(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(piece)[..<count]))
      worker.loop.cork.flush()
    }
  }

  func forwardBody(_ bytes: UnsafeRawBufferPointer) {
    guard let upstream else { return }
    if forwardsChunked {
      var line = ByteBuffer(capacity: 20)
      ChunkedWriter.append(size: bytes.count, to: &line)
      upstream.send(line.readable)
      upstream.send(bytes)
      line.removeAll()
      ChunkedWriter.endChunk(to: &line)
      upstream.send(line.readable)
    } else {
      upstream.send(bytes)
    }
    if upstream.pendingCount > Self.requestBacklog { connection?.pauseBody() }
  }

  func endForwardedBody(_ trailers: Trailers?) {
    guard let upstream, let pass else { return }
    if forwardsChunked {
      var end = ByteBuffer(capacity: 64)
      RequestRewrite.writeLastChunk(trailers, pass, to: &end)
      upstream.send(end.readable)
    }
    upstream.requestDidEnd()
  }

  private var forwardsChunked: Bool { head.framing == .chunked }

  func upstreamDidDrain() {
    switch body {
    case .collected(let kept) where kept.isInFile: sendFile(kept)
    case .streaming: connection?.resumeBody()
    default: break
    }
    guard case .tunnel = answer else { return }
    if isClientGone { tunnelClientDidEnd() } else { connection?.pump() }
  }

  // MARK: The answer

  func upstreamHead(_ response: ResponseHead) -> Bool {
    guard let pass else { return false }
    // 100 and 103 are between the upstream and us.
    if response.isInterim { return true }
    noteHead(Int(response.status))
    if let authentication, let readsOn = authenticationHead(authentication, response) { return readsOn }
    if response.status == 101 { return switchProtocols(response) }
    if triesNext(for: response, pass) { return false }
    if pass.settings.interceptsErrors, response.status >= 300, redirection == .none,
      location.settings.errorPages.contains(where: { $0.status == Int(response.status) })
    {
      dropUpstream()
      fail(Failure(Int(response.status)))
      return false
    }
    if let envelope = pass.envelope { return holdAnswer(response, pass, envelope) }
    sendHead(of: response, pass)
    return self.upstream != nil
  }

  private func noteHead(_ status: Int) {
    guard !attempts.isEmpty else { return }
    attempts[attempts.count - 1].headAt = worker.loop.now
    attempts[attempts.count - 1].status = status
  }

  /// `proxy_next_upstream http_502 …`: the answer counts as a failure and another server is tried.
  private func triesNext(for response: ResponseHead, _ pass: LiveProxyPass) -> Bool {
    let condition = RetryConditions(status: response.status)
    guard !condition.isEmpty, pass.settings.retry.conditions.contains(condition) else { return false }
    guard decide(condition, onKept: false) == .nextServer, let upstream else { return false }
    endRecord()
    self.upstream = nil
    upstream.abandon(isFailure: response.status >= 500)
    retry()
    return true
  }

  private func decide(_ condition: RetryConditions, onKept: Bool) -> RetryPolicy.Decision {
    guard let pass, let group else { return .giveUp }
    let replayable: Bool
    switch body {
    case .none, .collected, .held: replayable = true
    case .collecting, .streaming, .streamed: replayable = false
    }
    let isBegun: Bool
    if case .waiting = answer { isBegun = false } else { isBegun = true }
    return RetryPolicy(settings: pass.settings.retry, servers: group.servers.count).decide(
      condition,
      RetryPolicy.Situation(
        method: RequestRewrite.method(self, pass), requestBegun: requestBegun, bodyReplayable: replayable,
        responseBegun: isBegun,
        onKeptConnection: onKept, attempts: tried.count, deadConnections: deadConnections,
        elapsed: worker.loop.now &- (attempts.first?.beganAt ?? worker.loop.now)))
  }

  func upstreamBody(_ bytes: UnsafeRawBufferPointer) {
    guard let connection else { return }
    if !attempts.isEmpty { attempts[attempts.count - 1].bodyBytes &+= UInt64(bytes.count) }
    if let heldAnswer { return hold(bytes, in: heldAnswer) }
    if let authentication, authentication.isDiscarding { return discard(authentication, bytes.count) }
    writeBody(bytes, to: connection)
    if connection.stream.pendingCount > backlog { pauseUpstream() }
  }

  func upstreamDidPump() {
    guard let connection, connection.stream.pendingCount > backlog else { return }
    pauseUpstream()
  }

  private var backlog: Int { pass?.settings.bufferTotal ?? 65536 }

  private func pauseUpstream() {
    upstream?.pause()
    connection?.watchSending(location.limits.sendTimeout)
  }

  /// The connection serves another exchange only after this one has said all that it has to say of it.
  func upstreamDidEnd(_ trailers: Trailers?) {
    endRecord()
    noteAnswer()
    if let heldAnswer { return sealAnswer(heldAnswer) }
    endBody(trailers)
    finish()
  }

  func upstreamDidFail(_ failure: AttemptFailure) {
    let failed = upstream
    endRecord()
    guard connection != nil else { return upstream = nil }
    if case .tunnel = answer { return cutAnswer() }
    if let authentication, authentication.isDiscarding { return upstreamMayAskAgain(nil) }
    noteFailure(failure, of: failed)
    tell(failure)
    if case .streaming = answer { return cutAnswer() }
    upstream = nil
    let wasKept = (failed?.isKept ?? false) && failed?.bytesReceived == 0
    if wasKept { deadConnections += 1 }
    switch decide(failure.condition, onKept: wasKept) {
    case .sameServer: retry(again: attempts.last?.server)
    case .nextServer: retry()
    case .giveUp: fail(Failure(failure.status))
    }
  }

  private func noteFailure(_ failure: AttemptFailure, of failed: UpstreamConnection?) {
    guard let last = attempts.indices.last else { return }
    if attempts[last].status == nil { attempts[last].status = failure.status }
    if case .tls = failure {
      let tls = failed?.stream as? TLSStream
      if case .refused(let refusal) = tls?.trustResult {
        attempts[last].trust = refusal.outcome
        refusedKey = tls?.upstreamKeyHash ?? ""
      } else {
        attempts[last].trust = .incompatible
      }
      worker.metrics.upstreams.count(attempts[last].trust)
    }
  }

  func endRecord() {
    guard !attempts.isEmpty else { return }
    attempts[attempts.count - 1].endedAt = worker.loop.now
    guard let upstream else { return }
    attempts[attempts.count - 1].bytesReceived = upstream.bytesReceived
    attempts[attempts.count - 1].bytesSent = upstream.bytesSent
  }

  // MARK: Upgrade (101): bytes both ways, as they are

  private func switchProtocols(_ response: ResponseHead) -> Bool {
    // A client of HTTP/1.0 knows no 101 (RFC 9110 §15.2).
    guard outgoing.asksForUpgrade, head.version == .http11, let pass, pass.envelope == nil, let connection, let upstream
    else {
      log(.error, "upstream switched protocols without being asked")
      endRecord()
      dropUpstream()
      fail(Failure(502))
      return false
    }
    noteAnswer()
    sendHead(of: response, pass)
    answer = .tunnel
    upstream.becomeTunnel()
    connection.becomeTunnel()
    connection.pump()
    return false
  }

  func tunnelFromUpstream(_ bytes: UnsafeRawBufferPointer) {
    guard let connection else { return }
    bodyBytesSent &+= UInt64(bytes.count)
    connection.send(bytes)
    if connection.stream.pendingCount > backlog { pauseUpstream() }
  }

  func tunnelFromClient(_ bytes: UnsafeRawBufferPointer) { upstream?.send(bytes) }

  var isTunnelFull: Bool { (upstream?.pendingCount ?? 0) > Self.requestBacklog }

  /// What the client said before its end still goes out; then, as with nginx, the tunnel is over.
  func tunnelClientDidEnd() {
    isClientGone = true
    worker.loop.cork.flush()
    guard upstream?.pendingCount ?? 0 == 0 else { return }
    persists = false
    finish()
  }

  func tunnelUpstreamDidEnd(inGoodOrder: Bool) {
    guard inGoodOrder else { return cutAnswer() }
    persists = false
    finish()
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
