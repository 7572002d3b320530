import Bytes
import Negotiation
import Observability
package import TLS
package import Transport

/// A client's connection in `stream`, from its first byte to its last, which carries one session.
///
///     PROXY header ─► rules on the address ─► ssl_preread ─► TLS, and the rules on the client ─► content ─► end
///
/// The bytes before TLS are looked at in the socket, and what isn't sallyport's own stays there for the content.
package final class TCPConnection: ClientConnection {
  private enum Stage {
    case proxyHeader, rules, negotiation, preread, handshake, open, closed
  }

  // The session owns its connection.
  private unowned let session: ClientSession
  private let transport: ByteStream
  private var stage = Stage.proxyHeader
  package private(set) lazy var stream = TCPStream(self, session)
  /// An edge has told of bytes that nobody has read.
  private var sawInput = false
  /// nil before the session's end.
  package private(set) var result: SessionResult?
  package private(set) var preread = PrereadFacts()
  private var negotiation: ClientNegotiation?
  /// The client of PostgreSQL began with TLS at once, so that ALPN must have selected its protocol.
  private var demandsALPN = false
  private var lifetime: OneShotTimer?
  private var leavesTransport = false

  package init(_ session: ClientSession) {
    self.session = session
    transport = session.transport
    super.init()
    transport.owner = self
  }

  private var worker: Worker { session.worker }
  private var settings: StreamServerSettings {
    session.firstServer.settings.stream ?? StreamServerSettings()
  }

  override var isIdle: Bool { false }
  override var hasNoRequest: Bool { false }
  package override var transactions: [Transaction] { stream.session.map { [$0] } ?? [] }

  // MARK: Before the protocol of the client

  package func begin() {
    tellConnected()
    transport.awaitsHeader = true
    guard session.servers.settings.expectsProxyHeader else { return beginSession() }
    transport.setDeadline(in: settings.proxyHeaderTimeout)
    transport.begin()
  }

  package override func streamHeaderIsReadable() {
    sawInput = true
    switch stage {
    case .proxyHeader: readProxyHeader()
    case .preread: readHello()
    case .negotiation: negotiate()
    case .rules, .handshake, .open, .closed: break
    }
  }

  private func tellConnected() {
    session.firstServer.root.errorLog.log(
      .info, "*\(session.facts.number) client \(session.facts.peer) connected to \(session.servers.settings.address)")
  }

  private func readProxyHeader() {
    switch session.peekProxyHeader() {
    case .incomplete: break
    case .header(let length, _):
      guard transport.takeHeader(length) else { return session.close() }
      beginSession()
    case .ended:
      // As in nginx, a session whose header can't be read has the status 400.
      assumeSession()
      end(.proxyHeader, nil)
    }
  }

  /// From now on the end has a line in the access log.
  private func assumeSession() {
    let begun = StreamSession(worker: worker)
    stream.session = begun
    begun.begin(stream, session, session.firstServer)
    stream.count.move(to: session.firstServer.sessionMeter)
  }

  private func beginSession() {
    stage = .rules
    transport.setDeadline(in: nil)
    assumeSession()
    if stream.session?.runRules() == true { rulesDidAdmit() }
  }

  /// Goes on after the rules.
  func rulesDidAdmit() {
    guard stage == .rules else { return }
    if let kind = settings.negotiation, session.tls != nil {
      let talk = ClientNegotiation(kind, name: Sockets.hostName)
      negotiation = talk
      stage = .negotiation
      transport.setDeadline(in: settings.handshakeTimeout)
      transport.answerHeader(talk.greeting)
      return negotiate()
    }
    if settings.preread.isOn, session.tls == nil, !transport.isOpen {
      stage = .preread
      transport.setDeadline(in: settings.preread.timeout)
      return readHello()
    }
    openTransport()
  }

  /// Talks with the client in clear until it has asked for TLS (`starttls`).
  private func negotiate() {
    guard var talk = negotiation else { return }
    let room = UnsafeMutableRawBufferPointer(rebasing: transport.loop.readBuffer.prefix(talk.most + 1))
    let input: UnsafeRawBufferPointer
    switch transport.peek(into: room) {
    case .bytes(let count): input = UnsafeRawBufferPointer(rebasing: room[..<count])
    case .wouldBlock: return
    case .end, .failed: return end(.negotiation, "client closed connection in its negotiation of TLS")
    }
    let step = talk.take(input)
    negotiation = talk
    if step.consumed > 0, !transport.takeHeader(step.consumed) {
      return end(.negotiation, "the client's negotiation of TLS can't be read")
    }
    transport.answerHeader(step.reply)
    switch step.next {
    // No edge tells again of bytes beyond a room that was full, nor of the end that came together with the bytes.
    case .more:
      if step.consumed > 0 {
        if input.count == room.count || transport.hasPeerEnd { transport.loop.again(transport) }
      } else if transport.hasPeerEnd {
        end(.negotiation, "client closed connection in its negotiation of TLS")
      }
    case .beginTLS: openTransport()
    case .beginTLSDirectly:
      demandsALPN = true
      openTransport()
    case .cancel(let request): cancel(request)
    case .end(let reason): end(.negotiation, "\(reason) while negotiating TLS")
    }
  }

  /// Passes PostgreSQL's CancelRequest to the upstream, and nothing else in either direction. Its clients send it in clear,
  /// over a connection of its own; the key in it is what the upstream knows its session by.
  private func cancel(_ request: [UInt8]) {
    guard let running = stream.session, running.location.content.isUpstream else {
      return end(.negotiation, "the client sent a CancelRequest, and there is no upstream")
    }
    stage = .handshake
    transport.setDeadline(in: settings.handshakeTimeout)
    stream.onlyRequest = request
    running.startContent()
  }

  private func openTransport() {
    stage = .handshake
    if transport.isOpen { return streamDidOpen() }
    if session.tls != nil { transport.setDeadline(in: settings.handshakeTimeout) }
    // After an answer, each byte is still to come with its edge.
    transport.beginProtocol(isFollowed: sawInput && (negotiation == nil || demandsALPN))
  }

  private func readHello() {
    let limit = settings.preread.bufferSize
    let reading = withUnsafeTemporaryAllocation(byteCount: limit, alignment: 1) { target -> PrereadFacts.Reading in
      switch transport.peek(into: target) {
      case .bytes(let count):
        let bytes = UnsafeRawBufferPointer(rebasing: target[..<count])
        return PrereadFacts.read(bytes, isFull: count == limit, hasEnded: transport.hasPeerEnd)
      case .wouldBlock: return .incomplete
      case .end, .failed: return .ended
      }
    }
    switch reading {
    case .incomplete: return
    // As in nginx, a client that says nothing has the status 200.
    case .ended: return end(.preread, "client disconnected while prereading client data", status: 200)
    case .full: return end(.preread, "preread buffer full while prereading client data")
    case .known(let facts):
      preread = facts
      if chooseServer() { openTransport() }
    }
  }

  /// As in nginx, the name of the ClientHello selects the server block, whose rules on the address apply too. Returns false
  /// if the session has ended.
  private func chooseServer() -> Bool {
    guard !preread.serverName.isEmpty else { return true }
    switch session.servers.find(preread.serverName) {
    case .default: return true
    case .undecided:
      stream.session?.log(.error, "a regular expression of \"server_name\" gave up on the client's name")
      end(.error, nil)
    case .found(let found): move(to: found.server, found)
    }
    return stage == .preread
  }

  /// Goes on at another server block, if its rules let the client in.
  private func move(to server: LiveServer, _ found: VirtualServers.Found?) {
    if let found, !found.slots.isEmpty {
      let name = preread.serverName.isEmpty ? session.tls?.serverName ?? [] : preread.serverName
      stream.session?.take(found.captures, of: name, slots: found.slots)
    }
    guard let running = stream.session, running.server !== server else { return }
    session.choose(server)
    stream.count.move(to: server.sessionMeter)
    running.assume(server)
    if !running.runRules(), stage != .closed { end(.refusedAddress, nil) }
  }

  // MARK: TLS

  package override func streamMayBegin() -> Bool { worker.handshakes.mayBegin(session) }
  package override func streamMayAdvance() -> Bool { worker.handshakes.mayAdvance(session) }

  package override func streamDidOpen() {
    guard stage == .handshake else { return }
    transport.setDeadline(in: nil)
    session.admitOpened()
    if let tls = session.tls {
      worker.counters.handshakeDidComplete(tls)
      session.noteCertificate(of: tls)
      session.tellWatches()
      guard stage == .handshake, mayGoOn(tls) else { return }
    }
    guard stage == .handshake, let running = stream.session, !running.isRefused() else { return }
    stage = .open
    session.didOpen(self)
    // A reload may have come during the handshake.
    if session.isOutdated { session.reviewNow() }
    guard stage == .open else { return }
    let time = running.server.settings.stream?.lifetime ?? 0
    if time > 0 { lifetime = worker.loop.after(time) { [unowned self] in lifetimeDidEnd() } }
    running.startContent()
  }

  /// Whether the client may go on after its handshake.
  private func mayGoOn(_ tls: TLSStream) -> Bool {
    if demandsALPN, tls.applicationProtocol != NegotiatedProtocol.postgresALPN {
      end(
        .negotiation,
        "the client began with TLS and without ALPN \"\(NegotiatedProtocol.postgresALPN)\" (sslnegotiation=direct)")
      return false
    }
    if case .refused(_, let refusal, let reason) = session.admission {
      worker.counters.refusals.count(refusal)
      if let running = stream.session {
        worker.shared.clientFaults.logRefusal(of: running, refusal, .notice, reason)
      }
      end(.refusedCertificate, nil)
      return false
    }
    guard case .granted = session.admission else {
      if case .reported = session.admission {
        if let running = stream.session { session.report(running) }
        move(to: session.firstServer, found(tls))
        return stage == .handshake
      }
      stream.session?.log(.error, "the client's handshake chose no server")
      end(.error, nil)
      return false
    }
    move(to: session.firstServer, found(tls))
    return stage == .handshake
  }

  private func found(_ tls: TLSStream) -> VirtualServers.Found? {
    guard !tls.serverName.isEmpty, case .found(let found) = session.servers.find(tls.serverName) else { return nil }
    return found
  }

  package override func streamAgain() {
    switch stage {
    case .open: stream.pump()
    case .negotiation: negotiate()
    case .proxyHeader, .rules, .preread, .handshake, .closed: transport.resumeOpening()
    }
  }

  package override func streamDidFail(_ failure: StreamFailure) {
    guard stage != .open else { return stream.inputDidEnd(inGoodOrder: false) }
    session.handshakeDidFail(failure, session.tls)
    end(SessionResult(handshake: session.tls?.cause(of: failure)), nil)
  }

  package override func streamDeadlinePassed() {
    switch stage {
    case .proxyHeader:
      session.tellOfProxyHeader(.info, .timeout, ClientSession.timedOut)
      assumeSession()
      end(.proxyHeader, nil)
    case .negotiation: end(.negotiation, "\(ClientSession.timedOut) while negotiating TLS")
    case .preread: end(.preread, "\(ClientSession.timedOut) while prereading client data", status: 200)
    case .handshake:
      session.handshakeDidFail(nil, session.tls)
      end(.handshake, nil)
    case .rules, .open, .closed: break
    }
  }

  // MARK: Traffic

  package override func streamIsReadable() { if stage == .open { stream.pump() } }

  package override func streamDidDrain() { if stage == .open { stream.transportDidDrain() } }

  // MARK: Ends

  private func lifetimeDidEnd() {
    lifetime = nil
    end(.lifetime, "the connection has lasted as long as it may (connection_max_time)")
  }

  /// Ends the session. `reason`: for the error log. `status`: nil: that of the result.
  private func end(_ result: SessionResult, _ reason: String?, status: Int? = nil) {
    guard let running = stream.session else { return session.close() }
    if let reason { running.log(.info, reason) }
    running.end(result, status: status)
  }

  /// The session is over.
  func finish(_ result: SessionResult) {
    guard stage != .closed else { return }
    stage = .closed
    self.result = result
    lifetime?.cancel()
    lifetime = nil
    stream.setDeadline(in: nil)
    stream.loop.forgetDeadline(of: stream)
    if leavesTransport { session.leaveTransport() } else { session.close(result.closing) }
  }

  /// The transport goes to another listener's session (`pass`).
  package func leaveTransport() { leavesTransport = true }

  /// Whether a ClientHello inside the TLS was to be looked at, so that bytes may have been read.
  package var hasPreread: Bool { session.tls != nil && settings.preread.isOn }

  /// Begins a session whose transport another listener has opened.
  func beginOpened() {
    tellConnected()
    beginSession()
    // The rules were followed by no wait, because the transport is open.
  }

  /// A session lasts until one of its sides ends it, or `worker_shutdown_timeout` has passed.
  package override func drain() {}

  package override func retire() {}

  package override func end() { cut() }

  package override func cut() {
    // Another client got the place of one whose session hasn't begun.
    end(isOpening && !session.isLeaving ? .limited : .stopped, nil)
  }

  // MARK: Rehearsal

  /// Goes the way of a session for `sallyport check --explain`, without a byte of a client. `hello` stands in for what
  /// `ssl_preread` reads, and `handshake` for TLS; it returns how it fails, and nil if it succeeds.
  package func rehearse(hello: () -> PrereadFacts, handshake: () -> SessionResult?) {
    stage = .rules
    assumeSession()
    guard stream.session?.runRules() == true, stage == .rules else { return }
    if settings.preread.isOn, session.tls == nil {
      stage = .preread
      preread = hello()
      guard chooseServer() else { return }
    }
    stage = .handshake
    if session.tls != nil, let failure = handshake() { return end(failure, nil) }
    streamDidOpen()
  }
}

extension SessionResult {
  /// How the client's connection ends. After a side has broken off, what the other one has got may not be all that there
  /// was to say.
  var closing: ByteStream.Closing { self == .clientBroke || self == .upstreamBroke ? .abrupt : .orderly }

  /// `cause`: nil: there is no TLS.
  package init(handshake cause: HandshakeCause?) {
    switch cause {
    case .rule: self = .refusedRule
    case .certificate, .noCertificate: self = .refusedCertificate
    default: self = .handshake
    }
  }
}

extension TCPConnection {
  /// Whether the client's handshake or preread data is awaited.
  var isOpening: Bool {
    switch stage {
    case .proxyHeader, .rules, .negotiation, .preread, .handshake: true
    case .open, .closed: false
    }
  }
}
