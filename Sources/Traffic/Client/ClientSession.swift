import Bytes
import HTTP
package import Observability
package import TLS
public import Transport

/// One client's connection: the transport until the handshake is over, the facts and the admission of the client, and
/// then the HTTP connection.
///
/// A session belongs to one generation. After a reload the worker moves idle sessions to the new one (`move`).
public final class ClientSession: StreamOwner {
  package let worker: Worker
  package private(set) var live: LiveGeneration
  package private(set) var servers: VirtualServers
  package let transport: ByteStream
  package let facts: ConnectionFacts
  package private(set) var admission = Admission.undecided
  /// The server block before a Host is known: that of the SNI, or the default.
  package private(set) var firstServer: LiveServer
  /// The server block of the Host that this client used last.
  var hostChoice = HostChoice()
  /// Requests that the client has made.
  package var requests = 0
  /// nil until the handshake is over, and again once the session is closed.
  package private(set) var connection: ClientConnection?
  /// The connection of a session of `stream`, from its begin to its end; nil for HTTP.
  package private(set) var tcp: TCPConnection?
  package private(set) var isClosed = false
  /// What the metrics count the session as.
  package private(set) var state = ClientState.handshake
  /// Streams of HTTP/2 that are tunnels.
  package var tunnels = 0
  private var isOpening = true
  /// nil unless the requests in progress have a grace after their client was refused.
  private var grace: OneShotTimer?
  /// Why the requests in progress were judged last.
  private var occasion = ReviewOccasion.reload
  /// When the first judgement ends on which an exchange in progress rests beside that of the connection's client: of a
  /// client whom a front has sent, and of upstreams. It may be that of an exchange which is over.
  private var exchangesEnd = Int64.max
  package let tls: TLSStream?

  /// `tls`: the transport again if it has TLS, otherwise nil.
  /// How many listeners have given the connection on (`pass`), 0 if a client connected to this one.
  package let passes: Int
  /// nil unless the transport has TLS that another listener has ended.
  let passed: PassedClient?

  package init(
    worker: Worker, live: LiveGeneration, servers: VirtualServers, transport: ByteStream, tls: TLSStream?,
    peer: SocketAddress, number: UInt64, passes: Int = 0, passed: PassedClient? = nil
  ) {
    self.passes = passes
    self.passed = passed
    self.worker = worker
    self.live = live
    self.servers = servers
    self.firstServer = servers.fallback
    self.transport = transport
    self.tls = tls
    self.facts = ConnectionFacts(number: number, peer: peer, transport: transport, tls: tls)
    super.init()
    transport.owner = self
  }

  /// Milliseconds since the connection was accepted.
  package var age: UInt64 { transport.loop.now &- facts.openedAt }

  /// Whether the handshake isn't over, so that a request may be a replay (RFC 8470 §3).
  package var isEarly: Bool { tls?.isEarly ?? false }

  /// Whether the session ends with the exchange in progress.
  var isLeaving: Bool { worker.isDraining || isAskedToLeave || live !== worker.live }

  /// Whether the connection, once it is idle, takes its next request in the generation that serves by then.
  var rejoins: Bool { !worker.isDraining && !isAskedToLeave && live !== worker.live }

  /// The connection ends with what it has in progress, while the worker serves others.
  private var isAskedToLeave = false

  package func begin() {
    if servers.settings.kind == .stream {
      let tcp = TCPConnection(self)
      self.tcp = tcp
      return tcp.begin()
    }
    transport.setDeadline(in: servers.fallback.settings.head.timeout)
    transport.awaitsHeader = servers.settings.expectsProxyHeader
    transport.begin()
  }

  // MARK: The end of an admission

  /// From when on somebody whom the session rests on is to be judged again, in seconds since 1970; `.max`: never.
  package var judgementEnd: Int64 { min((tls ?? passed?.tls)?.judgementEnd ?? .max, exchangesEnd) }

  /// How the client came in, for a listener to which the connection is passed on.
  package var passedClient: PassedClient? {
    tls.map { PassedClient(tls: $0, listener: servers) } ?? passed
  }

  /// An exchange rests on a judgement that ends then.
  @inline(__always)
  package func note(end: Int64) {
    guard end < exchangesEnd else { return }
    exchangesEnd = end
    worker.admissionEnds.note(end)
  }

  /// Judges again whatever has ended: the client, clients whom a front has sent, and upstreams.
  func judgementDidEnd(at now: Int64) {
    guard !isClosed, let fresh = worker.live else { return }
    exchangesEnd = .max
    guard isPassedOnStill(by: fresh, .end) else { return }
    guard let connection, !connection.isIdle else { return move(to: fresh) }
    review(by: fresh, on: .end)
    // A request that comes later on this connection is refused, and HTTP/2 takes none.
    if !isClosed, case .refused = admission { connection.retire() }
  }

  /// Judges the client that another listener has let in and passed on. Returns false if it is refused now, and the session
  /// is over.
  private func isPassedOnStill(by fresh: LiveGeneration, _ occasion: ReviewOccasion) -> Bool {
    guard let passed else { return true }
    self.occasion = occasion
    let refusal = SessionReview.refusal(of: passed, by: fresh, self) { [weak self] in
      if let refusal = $0 { self?.endPassed(refusal) } else { self?.worker.admissionEnds.note(passed.tls.judgementEnd) }
    }
    guard let refusal else {
      worker.admissionEnds.note(passed.tls.judgementEnd)
      return true
    }
    endPassed(refusal)
    return false
  }

  private func endPassed(_ refusal: SessionReview.Refusal) {
    guard !isClosed else { return }
    for transaction in transactions { revoke(transaction, refusal, isLate: true) }
    if isClosed { return }
    log(.info, "the connection was closed: \(refusal.reason)")
    cut()
  }

  /// Settles the server block and the admission for the coming requests.
  private func admit() {
    firstServer = servers.fallback
    if let context = tls?.serverContext, context !== firstServer.context {
      firstServer = live.server(of: context) ?? firstServer
    }
    admission = Admission(tls)
    if let tls { worker.admissionEnds.note(tls.judgementEnd) }
    if let rest = worker.shared.denials.rest(tls?.clientVerdict.certificate) {
      admission = .denied(for: rest)
    }
  }

  // MARK: Sessions of `stream`

  /// Begins a session over a transport that another listener has opened (`pass`).
  func beginOpened() {
    if let passed { worker.admissionEnds.note(passed.tls.judgementEnd) }
    guard servers.settings.kind == .stream else { return streamDidOpen() }
    let tcp = TCPConnection(self)
    self.tcp = tcp
    tcp.beginOpened()
  }

  /// Goes the way of a session for `sallyport check --explain`. Returns how it has ended; nil if it waits.
  package func rehearse(hello: () -> PrereadFacts, handshake: () -> SessionResult?) -> SessionResult? {
    let tcp = TCPConnection(self)
    self.tcp = tcp
    tcp.rehearse(hello: hello, handshake: handshake)
    return tcp.result
  }

  /// The transport is open: settles the server block and the admission.
  func admitOpened() {
    if tls == nil { admission = .granted } else { admit() }
  }

  /// The ClientHello of a connection without TLS here has selected this server block.
  package func choose(_ server: LiveServer) { firstServer = server }

  package func didOpen(_ connection: TCPConnection) {
    endOpening()
    become(.stream)
    self.connection = connection
    if isAskedToLeave { worker.didBeginLate(self) }
  }

  /// Whether another generation serves by now.
  package var isOutdated: Bool { worker.live !== live }

  /// The generation that serves judges the client.
  func reviewNow() { if let fresh = worker.live { review(by: fresh, on: .reload) } }

  // MARK: Transport events, until the handshake is over

  public override func streamHeaderIsReadable() { readProxyHeader() }

  public override func streamMayBegin() -> Bool { worker.handshakes.mayBegin(self) }
  public override func streamMayAdvance() -> Bool { worker.handshakes.mayAdvance(self) }

  /// The client's turn for its handshake has come.
  public override func streamAgain() { transport.resumeOpening() }

  public override func streamDidOpen() {
    if let tls, tls.isInClear { return serveInClear() }
    if let tls, tls.answersChallenge {
      // RFC 8737 §3: nothing is served over such a connection.
      log(.info, "answered a tls-alpn-01 challenge for \"\(String(decoding: tls.serverName, as: UTF8.self))\"")
      return close()
    }
    admit()
    if let tls {
      worker.counters.handshakeDidComplete(tls)
      noteCertificate(of: tls)
      tellWatches()
      if isClosed { return }
    }
    if let tls {
      serve(tls.speaksHTTP2 ? .http2 : .http1)
    } else if firstServer.settings.http2.isOn {
      transport.owner = PrefaceReader(self, transport)
      transport.setDeadline(in: firstServer.settings.head.timeout)
    } else {
      serve(.http1)
    }
  }

  /// The protocols of clients. TLS settles which one by ALPN, and plain clients show it by their first bytes.
  package enum Speech { case http1, http2 }

  private func endOpening() {
    guard isOpening else { return }
    isOpening = false
    if tls != nil { worker.handshakes.end(self) }
    worker.openingDidEnd()
  }

  /// Serves the client from now on. `input`: bytes that were read to see which protocol it speaks.
  package func serve(
    _ speech: Speech, after input: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
  ) {
    switch speech {
    case .http1:
      endOpening()
      become(.idle)
      let connection = HTTP1Connection(self, transport)
      self.connection = connection
      transport.owner = connection
      transport.setDeadline(in: firstServer.settings.head.timeout)
      didBegin()
      if !input.isEmpty, !isClosed { connection.take(input) }
    case .http2:
      endOpening()
      become(.idle)
      let connection = HTTP2Connection(self, transport)
      self.connection = connection
      transport.owner = connection
      guard connection.begin() else { return close() }
      didBegin()
      if !input.isEmpty, !isClosed { connection.take(input) }
    }
  }

  /// The client may make requests from now on. Meanwhile, its listener may have gone, or the process have begun to stop.
  private func didBegin() {
    if isAskedToLeave { worker.didBeginLate(self) }
    if isOutdated { reviewNow() }
  }

  /// Counts the session as in this state from now on; nil: the connection is closed, and the session closes too.
  @inline(__always)
  package func become(_ next: ClientState?) {
    guard let next, next != state, !isClosed else { return }
    borrowing(worker.traffic) { $0.didChange(state, to: next) }
    state = next
  }

  public override func streamDidFail(_ failure: StreamFailure) {
    handshakeDidFail(failure, tls)
    close()
  }

  public override func streamDeadlinePassed() {
    if transport.awaitsHeader { tellOfProxyHeader(.info, .timeout, Self.timedOut) } else { handshakeDidFail(nil, tls) }
    close()
  }

  // MARK: Requests

  /// Whether the request may go to this server block, which must also have `http2` for a request over HTTP/2: its
  /// connection may have begun at another block.
  package func admits(_ exchange: Exchange, at server: LiveServer) -> Bool {
    (exchange.isRelayed ? isRelayedAdmitted(exchange) : admits(at: server))
      && (exchange.head.version != .http2 || server.settings.http2.isOn)
  }

  /// Whether the request's own client is admitted. The server block of the request has judged it, whatever block the
  /// handshake has chosen.
  func isRelayedAdmitted(_ exchange: Exchange) -> Bool {
    switch exchange.admission {
    case .granted, .reported: true
    case .undecided, .refused, .inClear: false
    }
  }

  /// Whether the session admits the client, and this server block has the client policy of the handshake's block.
  package func admits(at server: LiveServer) -> Bool {
    switch admission {
    case .granted, .reported: break
    case .undecided, .refused, .inClear: return false
    }
    guard let tls else { return true }
    guard let context = tls.serverContext else { return false }
    return server.admits(clientOf: context)
  }

  /// Writes a line about the connection, which belongs to no request.
  package func log(_ level: LogLevel, _ reason: @autoclosure () -> String) {
    let log = firstServer.root.errorLog
    guard log.takes(level) else { return }
    log.log(
      level,
      "*\(facts.number) \(reason()), client: \(facts.peer.host), server: \(loggedName(of: firstServer))")
  }

  /// The server block as the error log names it: as nginx's `stream`, one without a name by the address of the listener.
  package func loggedName(of server: LiveServer) -> String {
    let settings = server.settings
    return settings.stream != nil && settings.primaryName.isEmpty
      ? servers.settings.address.description : settings.primaryName
  }

  // MARK: Reload, idle eviction and end

  /// Moves the session to a new generation, which verifies the client again, or ends the session. A session with an
  /// exchange in progress stays, and ends with that exchange; the new generation judges its client too.
  package func move(to fresh: LiveGeneration) {
    guard !isClosed, isPassedOnStill(by: fresh, .reload) else { return }
    // It is judged at the end of its handshake, and ends with the session of the old generation's server block.
    if let tcp, tcp.isOpening { return }
    if let connection, !connection.isIdle {
      review(by: fresh, on: .reload)
      if !isClosed { connection.retire() }
      return
    }
    guard let successor = servers.successor(in: fresh) else { return drainRemoved(by: fresh) }
    guard tls?.move(to: successor) ?? true else {
      if connection != nil {
        let words = "its client is not admitted any more"
        idleClientIsRefused(words, words: words)
      }
      if let connection { connection.end() } else { close() }
      return
    }
    live.clients -= 1
    fresh.clients += 1
    live = fresh
    servers = successor
    firstServer = successor.fallback
    hostChoice = HostChoice()
    facts.forget()
    guard let connection else { return }
    admit()
    if connection.isHTTP2, !firstServer.settings.http2.isOn { return connection.end() }
    // A client without earlier requests gets a response with the reason; for other clients, the connection ends.
    if case .refused(_, _, let reason) = admission, requests > 0, !isFront {
      idleClientIsRefused(reason, words: "\(reason)\(facts.loggedClient)")
      connection.end()
    }
  }

  /// Ends the session, on which no exchange is in progress and whose listener is gone. As in nginx, a client may complete
  /// the request that it has begun; one that is about to begin has the time of a drain.
  private func drainRemoved(by fresh: LiveGeneration) {
    // It completes its handshake, and is judged then (`didBegin`).
    guard let connection else { return }
    review(by: fresh, on: .reload)
    if !isClosed { connection.drain() }
  }

  /// Moves to the generation that serves, after the exchange during which it began to serve.
  func rejoin() {
    guard let fresh = worker.live, fresh !== live else { return }
    move(to: fresh)
    worker.didLoseClient()
  }

  // MARK: Revocation during a request

  package var transactions: [Transaction] { connection?.transactions ?? [] }

  /// Whether a server block takes the peer's word, by its address, about whom it sends requests for.
  private var isFront: Bool { servers.hasFront(self) }

  /// Cuts the requests in progress that the generation which serves would refuse (`ssl_revoked_connections`).
  /// `isLate`: their grace is over.
  private func review(by fresh: LiveGeneration, on occasion: ReviewOccasion, isLate: Bool = false) {
    self.occasion = occasion
    for each in transactions { if let handler = each.handler { note(end: handler.judgeUpstream(by: fresh)) } }
    for each in transactions {
      guard let relayed = each.relayed else { continue }
      // Its error page, as below.
      if case .refused = relayed.admission { continue }
      if let refusal = SessionReview.refusal(ofRelayed: each, relayed, self, by: fresh) {
        revoke(each, refusal, isLate: isLate)
      } else {
        note(end: each.facts.relayedEnd)
      }
    }
    if isClosed { return }
    // A client that was refused before gets its error page, and nothing else.
    switch admission {
    case .refused where !isLate, .inClear: return
    case .undecided, .granted, .reported, .refused: break
    }
    switch SessionReview(of: self, by: fresh, later: { [weak self] in self?.responderDidAnswer($0) }) {
    case .kept: if let tls { worker.admissionEnds.note(tls.judgementEnd) }
    case .refused(let refusal): apply(refusal, isLate: isLate)
    case .denied(let denied):
      for (transaction, refusal) in denied { revoke(transaction, refusal, isLate: isLate) }
    }
  }

  private func responderDidAnswer(_ refusal: SessionReview.Refusal?) {
    if let refusal { return apply(refusal, isLate: false) }
    if let tls, !isClosed { worker.admissionEnds.note(tls.judgementEnd) }
  }

  /// No request of the client may go on. Those that a front sends for others don't depend on its certificate if it is known
  /// by its address.
  private func apply(_ refusal: SessionReview.Refusal, isLate: Bool) {
    guard !isClosed else { return }
    let all = transactions
    let own = all.filter { $0.relayed?.source.isAddress != true }
    for transaction in own { revoke(transaction, refusal, isLate: isLate) }
    if isClosed { return }
    if refusal.cause == .certificate {
      // Whatever the requests that have a grace still tell of their client, and the requests that come: the truth.
      if let verdict = refusal.verdict { tls?.take(verdict) }
      facts.forget()
      admission = .refused(.certificateError, .certificate, reason: refusal.reason)
    }
    if own.count < all.count { return }
    if case .close = refusal.mode { cut() } else if isLate { cut() }
  }

  /// Cuts a request, or gives it the grace of `ssl_revoked_connections drain`. A tunnel has no end to wait for.
  private func revoke(_ transaction: Transaction, _ refusal: SessionReview.Refusal, isLate: Bool) {
    // An exchange that hasn't begun is refused when it begins: it would be judged by a generation that was replaced.
    guard transaction.isUnderWay else { return }
    if case .drain(let time) = refusal.mode, !isLate, !transaction.isTunnel {
      if grace == nil { grace = worker.loop.after(time) { [unowned self] in graceDidEnd() } }
      return
    }
    worker.counters.revoked.count(refusal.cause)
    worker.shared.clientFaults.logRefusal(
      of: transaction, refusal.cause == .rule ? .rule : .certificate, .notice,
      "the \(transaction.thing) was cut\(occasion == .reload ? " after a reload" : ""): \(refusal.reason)",
      isCut: true)
    transaction.wasRevoked()
  }

  private func graceDidEnd() {
    grace = nil
    guard !isClosed, let fresh = worker.live else { return }
    review(by: fresh, on: occasion, isLate: true)
  }

  /// The worker drains: ends an idle connection. A client that has sent part of a request can complete it.
  package func drain() { connection?.drain() }

  /// As `drain`, while the worker serves on. Returns false if the handshake isn't over: the client leaves after it.
  func askToLeave() -> Bool {
    isAskedToLeave = true
    guard let connection else { return false }
    connection.drain()
    return true
  }

  /// Which connections go before this one at the limit of `worker_connections`; nil: this one stays.
  var evictionRank: EvictionOrder.Rank? {
    guard !isClosed else { return nil }
    guard let connection else {
      let waits = worker.handshakes.isWaiting(self) && !worker.handshakes.crowds(self)
      return waits ? .waiting : .opening
    }
    guard connection.isIdle, transport.pendingCount == 0 else { return nil }
    if connection.hasNoRequest { return facts.isVerified ? .verified : requests == 0 ? .opening : .idle }
    return !facts.isVerified && requests == 0 ? .head : nil
  }

  /// Whether the handshake waits for the client, and not for a responder or a file of ours.
  var isHandshakeClients: Bool { tls?.waitsForPeer ?? true }

  /// Ends the session, unless bytes of the client have come that weren't read yet. Returns whether it has ended.
  func cutUnlessSpeaking() -> Bool {
    guard !isClosed, !transport.hasUnreadBytes else { return false }
    cut()
    return true
  }

  /// The time since which the session waits for its client, in milliseconds of the loop's clock: for a request, or in the
  /// handshake. A client that has waited for its turn could do nothing before.
  var idleSince: UInt64 { connection?.idleSince ?? worker.handshakes.turnCame(for: self) ?? facts.openedAt }

  /// Ends the session at once, even during an exchange.
  package func cut() {
    if let connection { connection.cut() } else if let tcp { tcp.cut() } else { close() }
  }

  package func close(_ closing: ByteStream.Closing = .orderly) {
    guard leave() else { return }
    transport.close(closing)
    worker.didClose(self)
  }

  /// Ends the session, whose transport goes to a session of another listener.
  package func leaveTransport() {
    guard leave() else { return }
    transport.owner = nil
    worker.didClose(self)
  }

  /// Returns false if the session is over already.
  private func leave() -> Bool {
    guard !isClosed else { return false }
    isClosed = true
    grace?.cancel()
    grace = nil
    if let tls, tls.isFlooding {
      log(worker.note(.messageFlood, of: facts.peer) ? .info : .debug, TLSStream.floodReason)
    }
    endOpening()
    connection = nil
    tcp = nil
    return true
  }
}
