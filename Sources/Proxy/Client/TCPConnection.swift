import Bytes
import Negotiation
import Observability
import TLS
import Transport

/// A client's connection in `stream`, from its first byte to its last. Its session is one exchange, without a request.
///
///     PROXY header ─► rules on the address ─► ssl_preread ─► TLS, and the rules on the client ─► content ─► end
///
/// The bytes before TLS are looked at in the socket, and what isn't sallyport's own stays there for the content.
final class TCPConnection: ClientConnection {
  private enum Stage {
    case proxyHeader, rules, negotiation, preread, handshake, open, closed
  }

  // The session owns its connection.
  private unowned let session: ClientSession
  private let transport: ByteStream
  private var stage = Stage.proxyHeader
  private(set) lazy var stream = TCPStream(self, session)
  /// An edge has told of bytes that nobody has read.
  private var sawInput = false
  /// The rules have let the client in, and the connection has not gone on yet.
  private var hasPassed = false
  private(set) var preread = PrereadFacts()
  private var negotiation: ClientNegotiation?
  /// The client of PostgreSQL began with TLS at once, so that ALPN must have selected its protocol.
  private var demandsALPN = false
  private var lifetime: OneShotTimer?
  private var leavesTransport = false

  init(_ session: ClientSession) {
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
  override var exchanges: [Exchange] { stream.exchange.map { [$0] } ?? [] }

  // MARK: Before the protocol of the client

  func begin() {
    transport.awaitsHeader = true
    guard session.servers.settings.expectsProxyHeader else { return beginSession() }
    transport.setDeadline(in: settings.proxyHeaderTimeout)
    transport.begin()
  }

  override func streamHeaderIsReadable() {
    sawInput = true
    switch stage {
    case .proxyHeader: readProxyHeader()
    case .preread: readHello()
    case .negotiation: negotiate()
    case .rules, .handshake, .open, .closed: break
    }
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
      end(400, nil)
    }
  }

  /// Takes an exchange for the session, so that its end has a line in the access log.
  private func assumeSession() {
    let exchange = worker.takeExchange()
    stream.exchange = exchange
    exchange.beginSession(stream, session.firstServer)
  }

  private func beginSession() {
    stage = .rules
    transport.setDeadline(in: nil)
    assumeSession()
    stream.withExchange { $0.runRules() }
    if hasPassed { prepare() }
  }

  func rulesDidPass() { hasPassed = true }

  /// Goes on after the rules.
  private func prepare() {
    hasPassed = false
    guard stage == .rules else { return }
    if let kind = settings.negotiation, session.tls != nil {
      let talk = ClientNegotiation(kind, name: TCPPassSettings.hostName)
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
    case .end, .failed: return end(400, "client closed connection in its negotiation of TLS")
    }
    let step = talk.take(input)
    negotiation = talk
    if step.consumed > 0, !transport.takeHeader(step.consumed) {
      return end(400, "the client's negotiation of TLS can't be read")
    }
    transport.answerHeader(step.reply)
    switch step.next {
    case .more: break
    case .beginTLS: openTransport()
    case .beginTLSDirectly:
      demandsALPN = true
      openTransport()
    case .cancel(let request): cancel(request)
    case .end(let reason): end(400, "\(reason) while negotiating TLS")
    }
  }

  /// Passes PostgreSQL's CancelRequest to the upstream, and nothing else in either direction. Its clients send it in clear,
  /// over a connection of its own; the key in it is what the upstream knows its session by.
  private func cancel(_ request: [UInt8]) {
    guard let exchange = stream.exchange, exchange.goesToUpstream else {
      return end(400, "the client sent a CancelRequest, and there is no upstream")
    }
    stage = .handshake
    transport.setDeadline(in: settings.handshakeTimeout)
    stream.onlyRequest = request
    exchange.resume(.next)
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
    case .ended: return end(200, "client disconnected while prereading client data")
    case .full: return end(400, "preread buffer full while prereading client data")
    case .known(let facts):
      preread = facts
      chooseServer()
    }
  }

  /// As in nginx, the name of the ClientHello selects the server block, whose rules on the address apply too.
  private func chooseServer() {
    guard !preread.serverName.isEmpty else { return openTransport() }
    switch session.servers.find(preread.serverName) {
    case .default: return openTransport()
    case .undecided: return end(500, "a regular expression of \"server_name\" gave up on the client's name")
    case .found(let found): move(to: found.server, found)
    }
    if stage == .preread { openTransport() }
  }

  /// Goes on at another server block, if its rules let the client in.
  private func move(to server: LiveServer, _ found: VirtualServers.Found?) {
    if let found, !found.slots.isEmpty {
      let name = preread.serverName.isEmpty ? session.tls?.serverName ?? [] : preread.serverName
      stream.withExchange { $0.take(found.captures, of: name, slots: found.slots) }
    }
    guard stream.exchange?.server !== server else { return }
    session.choose(server)
    hasPassed = false
    stream.withExchange { exchange in
      exchange.assume(server)
      exchange.runRules()
    }
    if !hasPassed, stage != .closed, let exchange = stream.exchange { exchange.fail(ErrorResponse(403)) }
    hasPassed = false
  }

  // MARK: TLS

  override func streamMayBegin() -> Bool { worker.handshakes.mayBegin(session) }

  override func streamDidOpen() {
    guard stage == .handshake else { return }
    transport.setDeadline(in: nil)
    session.admitOpened()
    if let tls = session.tls {
      worker.counters.handshakeDidComplete(tls)
      guard mayGoOn(tls) else { return }
    }
    guard stage == .handshake, let exchange = stream.exchange, !exchange.denies(exchange.location), stage == .handshake
    else { return }
    stage = .open
    session.didOpen(self)
    // A reload may have come during the handshake.
    if session.isOutdated { session.reviewNow() }
    guard stage == .open else { return }
    let time = exchange.server.settings.stream?.lifetime ?? 0
    if time > 0 { lifetime = worker.loop.after(time) { [unowned self] in lifetimeDidEnd() } }
    exchange.resume(.next)
  }

  /// Whether the client may go on after its handshake.
  private func mayGoOn(_ tls: TLSStream) -> Bool {
    if demandsALPN, tls.applicationProtocol != StartTLS.postgresALPN {
      end(400, "the client began with TLS and without ALPN \"\(StartTLS.postgresALPN)\" (sslnegotiation=direct)")
      return false
    }
    if case .refused(_, let reason) = session.admission {
      worker.counters.refusals.count(.certificate)
      stream.withExchange { worker.shared.clientFaults.logRefusal(of: $0, .certificate, .notice, reason) }
      end(403, nil)
      return false
    }
    guard case .granted = session.admission else {
      if case .reported = session.admission {
        stream.withExchange { session.report($0) }
        move(to: session.firstServer, found(tls))
        return stage == .handshake
      }
      end(500, "the client's handshake chose no server")
      return false
    }
    move(to: session.firstServer, found(tls))
    return stage == .handshake
  }

  private func found(_ tls: TLSStream) -> VirtualServers.Found? {
    guard !tls.serverName.isEmpty, case .found(let found) = session.servers.find(tls.serverName) else { return nil }
    return found
  }

  override func streamAgain() { if stage == .open { stream.pump() } else { transport.resumeOpening() } }

  override func streamDidFail(_ failure: StreamFailure) {
    guard stage != .open else { return stream.inputDidEnd(inGoodOrder: false) }
    session.handshakeDidFail(failure, session.tls)
    end(session.tls?.refusedCertificate != nil ? 403 : 400, nil)
  }

  override func streamDeadlinePassed() {
    switch stage {
    case .proxyHeader:
      session.tellOfProxyHeader(.info, .timeout, ClientSession.timedOut)
      assumeSession()
      end(400, nil)
    case .negotiation: end(400, "\(ClientSession.timedOut) while negotiating TLS")
    case .preread: end(200, "\(ClientSession.timedOut) while prereading client data")
    case .handshake:
      session.handshakeDidFail(nil, session.tls)
      end(400, nil)
    case .rules, .open, .closed: break
    }
  }

  // MARK: Traffic

  override func streamIsReadable() { if stage == .open { stream.pump() } }

  override func streamDidDrain() { if stage == .open { stream.transportDidDrain() } }

  // MARK: Ends

  private func lifetimeDidEnd() {
    lifetime = nil
    stream.withExchange { exchange in
      exchange.log(.info, "the connection has lasted as long as it may (connection_max_time)")
      exchange.endSession(200, .workerStops)
    }
  }

  /// Ends the session before its content. `reason`: for the error log.
  private func end(_ status: Int, _ reason: String?) {
    guard let exchange = stream.exchange else { return session.close() }
    if let reason { exchange.log(.info, reason) }
    exchange.endSession(status, .failed)
  }

  /// The exchange is over.
  func finish(_ closing: ByteStream.Closing) {
    guard stage != .closed else { return }
    stage = .closed
    lifetime?.cancel()
    lifetime = nil
    stream.setDeadline(in: nil)
    stream.loop.forgetDeadline(of: stream)
    stream.exchange = nil
    if leavesTransport { session.leaveTransport() } else { session.close(closing) }
  }

  /// The transport goes to another listener's session (`pass`).
  func leaveTransport() { leavesTransport = true }

  /// Whether a ClientHello inside the TLS was to be looked at, so that bytes may have been read.
  var hasPreread: Bool { session.tls != nil && settings.preread.isOn }

  /// Begins a session whose transport another listener has opened.
  func beginOpened() {
    beginSession()
    // `prepare` has waited for nothing, because the transport is open.
  }

  /// A session lasts until one of its sides ends it, or `worker_shutdown_timeout` has passed.
  override func drain() {}

  override func retire() {}

  override func end() { cut() }

  override func cut() {
    guard let exchange = stream.exchange else { return session.close() }
    exchange.endSession(200, .workerStops)
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
