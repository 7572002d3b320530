import Bytes
import COpenSSL
package import Crypto
public import Transport

/// Chooses the server block for the name of a ClientHello. Each listener has one chooser for each worker. It is a class
/// for the same reason as EventTarget.
open class ServerChooser {
  /// The answers to challenges of tls-alpn-01; nil: the listener answers none.
  let challenges: ChallengeCertificates?

  /// That of the process's own health check; nil: no handshake is one.
  let healthMark: HealthMark?

  public init() { (challenges, healthMark) = (nil, nil) }
  package init(challenges: ChallengeCertificates?, healthMark: HealthMark? = nil) {
    self.challenges = challenges
    self.healthMark = healthMark
  }
  /// The context that a connection starts with.
  open var initial: ServerTLSContext? { nil }
  /// Returns the context for `name`: lower case, without a trailing dot, empty without SNI. nil: no server block serves
  /// it.
  open func choose(_ name: [UInt8]) -> ServerTLSContext? { nil }
  /// Returns why a server block's access rules deny a client; nil when they allow the client. `client`: nil when nothing
  /// verified it. OpenSSL's callbacks ask this in full handshakes, and before a session is kept or resumed.
  open func denial(of client: VerifiedClient?, by context: ServerTLSContext) -> String? { nil }
  /// Whether clients that send a request of plain HTTP in place of a ClientHello get a response in clear.
  open var answersInClear: Bool { false }
  /// Whether some server block accepts early data, so that handshakes must read it.
  open var takesEarlyData: Bool { false }
}

/// A stream with TLS, of either side. Before `streamDidOpen` the peer has been judged: a connection to a refused
/// upstream never carries a byte of its owner.
public final class TLSStream: ByteStream {
  enum Side {
    case server(ServerChooser)
    case client(UpstreamTLSContext, name: String, key: UpstreamTLSContext.SessionKey)
  }

  /// Server side: nil until the client's first byte has come, because most of a connection's memory belongs to it.
  private(set) var ssl: OpaquePointer?
  var side: Side
  /// Server side: what judges the client at the end of a handshake that an earlier generation began.
  var laterPolicy: ClientPolicy?
  /// Server side: the chosen server block, and the name that chose it (lower case; empty without SNI).
  public internal(set) var serverContext: ServerTLSContext?
  public internal(set) var serverName: [UInt8] = []
  /// Server side: the handshake answers a challenge of tls-alpn-01. There is no server block then, and the connection
  /// ends with the handshake.
  public internal(set) var answersChallenge = false
  /// Server side: the ClientHello is one of `sallyport health`, which asks whether the listener begins handshakes.
  package internal(set) var isHealthCheck = false
  /// Server side: the client speaks plain HTTP, so the stream has opened without a handshake, and passes bytes as they are.
  /// Nothing is known of the client, and the owner must refuse each of its requests.
  public private(set) var isInClear = false
  /// The ClientHello callback has run: a second ClientHello can't change the choice.
  var hasChosen = false
  /// Server side: the judgement of the client in a full handshake, or that of a later generation which has taken the
  /// connection over; nil if the client has shown no certificate, or has resumed a session.
  var judgement: ClientJudgement?
  /// Server side: why the chosen server block has no identity, or no bundles, of the Workload API.
  var workloadFault: String?
  /// The origin of the session that the server found. OpenSSL decides whether it resumes that session.
  var foundOrigin: SessionStore.Origin?
  /// Server side: the certificates of this handshake, where the names of their files have variables.
  var certificateChoice: CertificateChoice?
  /// Server side: early data, when the client may send some.
  var earlyData: EarlyData?
  /// Server side: why the handshake failed, as far as OpenSSL or a callback knows it.
  var handshakeCause: HandshakeCause?
  /// Server side: the fault of the certificate that was refused in the handshake.
  var certificateFault: CertificateFault?
  /// Client side: when the upstream of the session that was offered last proved its key, in the loop's milliseconds.
  private(set) var provenAt: UInt64?
  /// Client side: the judgement of the upstream's certificate in this handshake; nil before the judgement.
  public internal(set) var trustResult: TrustResult?
  /// For the log: the certificate of an upstream once the session is freed, or that of a peer that was refused in the
  /// handshake. Owns a reference.
  private(set) var lastPeer: OpaquePointer?
  /// Server side: the certificates of a client that was refused in the handshake, its own first; empty without any. OpenSSL
  /// keeps none of a handshake that fails.
  package private(set) var refusedChain: [Certificate] = []
  /// Server side: the handshake is over, and the responders have not answered yet.
  private(set) var isAwaitingStatus = false
  /// Server side: whether the handshake waits for the client.
  package var waitsForPeer: Bool { !isAwaitingStatus && !(certificateChoice?.isWaiting ?? false) }
  var messages = MessageBudget()
  /// Server side: the client has sent too many messages after its handshake. Nothing more is read.
  public internal(set) var isFlooding = false
  /// The stream is open, although the handshake is not over. What it reads may be a replay (RFC 8470 §3).
  public var isEarly: Bool { keepsAdvancing }
  /// What a read of the socket in the handshake took beyond the bytes that OpenSSL asked for.
  private var unreadRecords = ByteBuffer()
  /// The octets that a read in the handshake takes at once; most flights have fewer.
  private static let flightSize = 4096
  /// The largest plaintext of one record (RFC 8446 §5.1).
  private static let recordSize = 16 * 1024
  /// The judgement of the client; final when the stream opens.
  public internal(set) var clientVerdict = ClientVerdict.absent
  /// From when on the judgement of the peer is to be made again, in seconds since 1970; `.max`: never. OpenSSL judges
  /// in handshakes only, and a connection may outlive what its peer was judged by: a certificate, a CRL, an answer of a
  /// responder, what the SPIFFE agent gave.
  public internal(set) var judgementEnd = Int64.max

  /// Makes the server side, over an accepted socket.
  public init(accepting descriptor: Int32, loop: EventLoop, chooser: ServerChooser) throws(SocketError) {
    side = .server(chooser)
    serverContext = chooser.initial
    try super.init(loop: loop, descriptor: descriptor, isConnecting: false)
  }

  /// Returns the session; makes that of the server side.
  func session() -> OpaquePointer? {
    if let ssl { return ssl }
    guard case .server(let chooser) = side, !isClosed, let context = chooser.initial else { return nil }
    ssl = Self.session(of: context.handle, stream: self)
    if let ssl { SSL_set_accept_state(ssl) }
    if chooser.takesEarlyData { earlyData = EarlyData() }
    return ssl
  }

  /// Makes the client side, over a connecting socket. `name`: for SNI and the name check. `address`: part of the
  /// session's key. `protocols`: what ALPN offers; empty: what the context offers.
  public init(
    connecting descriptor: Int32, loop: EventLoop, context: UpstreamTLSContext, name: String, address: String,
    protocols: OfferedProtocols = OfferedProtocols([])
  ) throws(SocketError) {
    let key = UpstreamTLSContext.SessionKey(address: address, name: name)
    side = .client(context, name: name, key: key)
    try super.init(loop: loop, descriptor: descriptor, isConnecting: true)
    ssl = Self.session(of: context.handle, stream: self)
    guard let ssl else { return }
    SSL_set_connect_state(ssl)
    // RFC 6066 §3 forbids literal addresses in SNI.
    if context.settings.sendsServerName, !name.isEmpty, SocketAddress(literal: name, port: 0) == nil {
      _ = copenssl_set_tlsext_host_name(ssl, name)
    }
    if !protocols.isEmpty, SSL_set_alpn_protos(ssl, protocols.list, UInt32(protocols.list.count)) != 0 {
      // Without memory for its offer, the connection must not begin with another one.
      SSL_free(ssl)
      self.ssl = nil
      return
    }
    if context.settings.reusesSessions { provenAt = context.resume(ssl, for: key, now: loop.now) }
  }

  private static func session(of context: OpaquePointer, stream: TLSStream) -> OpaquePointer? {
    guard let ssl = SSL_new(context) else { return nil }
    guard let bio = SessionBIO.make(for: stream),
      SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(stream).toOpaque()) == 1
    else {
      SSL_free(ssl)
      return nil
    }
    BIO_up_ref(bio)
    SSL_set0_rbio(ssl, bio)
    SSL_set0_wbio(ssl, bio)
    return ssl
  }

  static func of(_ ssl: OpaquePointer?) -> TLSStream? {
    guard let ssl, let data = SSL_get_ex_data(ssl, 0) else { return nil }
    return Unmanaged<TLSStream>.fromOpaque(data).takeUnretainedValue()
  }

  deinit {
    SSL_free(ssl)
    X509_free(lastPeer)
  }

  // MARK: Opening

  public override func opened() {
    if case .server = side { awaitInput() } else { advanceOpening() }
  }

  public override func advanceOpening() {
    // The handshake is over, so nothing is read: what arrives meanwhile waits in the socket.
    if isAwaitingStatus { return }
    if ssl == nil, let owner, !owner.streamMayBegin() {
      if hasPeerEnd { fail(.truncated) }
      return
    }
    if waitsForCertificate() { return }
    if case .server = side, let owner, !owner.streamMayAdvance() { return }
    if ssl == nil, case .server(let chooser) = side, chooser.answersInClear, beginsInClear() {
      (isInClear, handshakeCause) = (true, .plainHTTP)
      becomeOpen()
      return resumeReading()
    }
    guard let ssl = session() else {
      handshakeCause = .internal
      return fail(.protocolError("no session: \(OpenSSLReasons.take())"))
    }
    switch earlyData.map({ $0.read(from: ssl) }) ?? .ended {
    case .waits: return openEarly(ssl)
    case .failed(let error): return handshakeDidFail(error)
    case .ended: break
    }
    ERR_clear_error()
    let result = SSL_do_handshake(ssl)
    if result == 1 {
      if let earlyData, earlyData.bytes.isEmpty { self.earlyData = nil }
      guard isEarly else {
        // What the server writes last in TLS 1.3 is a ticket, for which no client waits. Without one, the next output is
        // an alert or the like.
        if case .server = side, SSL_version(ssl) == TLS1_3_VERSION { mayHold = loop.cork.holds(self) }
        return finishOpening(ssl)
      }
      keepsAdvancing = false
      return
    }
    let error = SSL_get_error(ssl, result)
    if [SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE, SSL_ERROR_WANT_X509_LOOKUP].contains(error) {
      return openEarly(ssl)
    }
    handshakeDidFail(error)
  }

  /// Reads the client's first bytes, which OpenSSL gets next. Returns whether they begin a method of HTTP: no ClientHello
  /// begins with a letter (RFC 8446 §5.1).
  private func beginsInClear() -> Bool {
    unreadRecords.reserve(Self.flightSize)
    guard case .bytes(let count) = receive(into: unreadRecords.writable) else {
      unreadRecords.release()
      return false
    }
    unreadRecords.didWrite(count)
    return unreadRecords.readable.first.map { $0 &- 0x41 < 26 } ?? false
  }

  /// Opens the stream when the client's request arrives before its Finished, so that the request can be judged and
  /// answered (RFC 8470).
  private func openEarly(_ ssl: OpaquePointer) {
    guard !waitsForCertificate(), !isEarly, let earlyData, !earlyData.bytes.isEmpty else { return }
    keepsAdvancing = true
    finishOpening(ssl)
  }

  private func handshakeDidFail(_ error: Int32) {
    if case .client(let context, _, let key) = side { context.forget(key) }
    noteCause()
    fail(handshakeFailure(error))
  }

  private func handshakeFailure(_ error: Int32) -> StreamFailure {
    if case .refused(let refusal) = trustResult { return .protocolError(refusal.description) }
    if let denial = judgement?.denial { return .protocolError(denial) }
    if let missingCertificate { return .protocolError(missingCertificate) }
    if let failure { return failure }
    let isCut = error == SSL_ERROR_SYSCALL || OpenSSLReasons.isUnexpectedEnd
    let name = OpenSSLReasons.isUnknownName ? sentName : ""
    let reasons = OpenSSLReasons.take()
    if isCut { return .truncated }
    return .protocolError("SSL_do_handshake() failed (SSL: \(reasons))\(name)\(clientFault ?? "")")
  }

  /// Which name the upstream was asked for: a location that has forgotten to send one gets the same alert as one that asks
  /// for a wrong name.
  private var sentName: String {
    guard case .client(let context, _, _) = side, let ssl else { return "" }
    if let name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) {
      return ", the name sent was \"\(String(cString: name))\""
    }
    return context.settings.sendsServerName
      ? ", no name was sent: it is empty or an address (proxy_ssl_name)"
      : ", no name was sent (proxy_ssl_server_name off)"
  }

  /// By what the client was verified, in this handshake or in the one that made the session; nil if by nothing.
  var verifiedClient: VerifiedClient? {
    if let judgement { return judgement.verdict.client }
    return isResumed ? foundOrigin?.client : nil
  }

  /// Server side: the chain of a client that was refused in a full handshake for its purpose alone.
  public var purposelessChain: VerifiedChain? { judgement?.purposelessChain }

  /// Keeps a refused peer's certificate for the log; OpenSSL frees its own reference with the handshake.
  func refused(_ peer: OpaquePointer?, sent: @autoclosure () -> [Certificate] = []) {
    guard let peer, lastPeer == nil else { return }
    refusedChain = sent()
    X509_up_ref(peer)
    lastPeer = peer
  }

  private func finishOpening(_ ssl: OpaquePointer) {
    switch side {
    case .server:
      watchMessages(ssl)
      if answersChallenge { return becomeOpen() }
      if let laterPolicy {
        self.laterPolicy = nil
        guard isJudgedAnew(ssl, by: laterPolicy) else {
          handshakeCause = .reload
          return fail(.protocolError(ClientPolicy.refusal))
        }
      } else {
        clientVerdict = handshakeVerdict(ssl)
      }
      if let check = serverContext?.statusCheck, case .verified(let chain) = clientVerdict {
        return askResponders(check, chain)
      }
      noteJudgementEnd(ssl)
    case .client(let context, let name, let key):
      // OpenSSL calls back to judge neither a resumed session nor a cipher suite without certificates.
      if trustResult == nil { take(context.judgeAgain(ssl, name: name)) }
      if case .refused(let refusal) = trustResult {
        context.forget(key)
        return fail(.protocolError(refusal.description))
      }
    }
    becomeOpen()
  }

  /// Opens the stream after the responders have answered about the client.
  private func askResponders(_ check: ClientStatusCheck, _ chain: VerifiedChain) {
    isAwaitingStatus = true
    let waiter = StreamWaiter(self)
    let known = check.judge(chain) { [loop] verdict in
      loop.post { waiter.take()?.statusDidCome(verdict) }
    }
    if let known { statusDidCome(known) }
  }

  private func statusDidCome(_ verdict: StatusVerdict) {
    guard isAwaitingStatus, !isClosed else { return }
    isAwaitingStatus = false
    switch verdict {
    case .good(let end): if let ssl { noteJudgementEnd(ssl, answersEnd: end) }
    case .refused(let code, let reason):
      if let leaf = clientVerdict.certificate { clientVerdict = .refused(leaf, code: Int(code), reason: reason) }
    }
    becomeOpen()
    resumeReading()
  }

  // MARK: Traffic

  /// Reads for the BIO. In handshakes, OpenSSL 3.2 and later ask for the header and the contents of each record apart,
  /// whatever SSL_CTX_set_read_ahead says: nine reads of a flight with a client's certificate. One read takes all.
  func receiveRecords(into target: UnsafeMutableRawBufferPointer) -> ReadOutcome {
    if unreadRecords.isEmpty {
      guard !isOpen, target.count < Self.flightSize else { return receive(into: target) }
      unreadRecords.reserve(Self.flightSize)
      switch receive(into: unreadRecords.writable) {
      case .bytes(let count): unreadRecords.didWrite(count)
      case let outcome:
        unreadRecords.release()
        return outcome
      }
    }
    let part = unreadRecords.readable.prefix(target.count)
    target.copyMemory(from: UnsafeRawBufferPointer(rebasing: part))
    unreadRecords.consume(part.count)
    if unreadRecords.isEmpty { unreadRecords.release() }
    return .bytes(part.count)
  }

  public override var hasBufferedInput: Bool {
    guard let ssl else { return isInClear && !unreadRecords.isEmpty }
    if !unreadRecords.isEmpty { return true }
    if let earlyData, !earlyData.bytes.isEmpty { return true }
    return SSL_has_pending(ssl) == 1
  }

  public override func read(into target: UnsafeMutableRawBufferPointer) -> ReadOutcome {
    guard let ssl, !isClosed else { return isInClear && !isClosed ? receiveRecords(into: target) : .wouldBlock }
    if let earlyData {
      if !earlyData.bytes.isEmpty { return .bytes(earlyData.take(into: target)) }
      if isEarly { return .wouldBlock }
    }
    // SSL_get_error would report errors that other calls left in this thread's queue as this stream's.
    if ERR_peek_error() != 0 { ERR_clear_error() }
    let count = SSL_read(ssl, target.baseAddress, Int32(truncatingIfNeeded: target.count))
    if count > 0 { return .bytes(Int(count)) }
    switch SSL_get_error(ssl, count) {
    case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .wouldBlock
    case SSL_ERROR_ZERO_RETURN: return .end
    case let error:
      noteFailure(readFailure(error))
      // A FIN without close_notify fails too: an attacker who cuts the connection must not be able to end a body early.
      return .failed
    }
  }

  /// In TLS 1.3 a peer that refuses the client certificate reports it here: the client's handshake ends before the peer
  /// has checked the certificate.
  private func readFailure(_ error: Int32) -> StreamFailure {
    let isCut = error == SSL_ERROR_SYSCALL || OpenSSLReasons.isUnexpectedEnd
    let reasons = OpenSSLReasons.take()
    if isCut { return .truncated }
    return .protocolError("SSL_read() failed (SSL: \(reasons))")
  }

  /// Collects plaintext up to a record's size. Whole records are encrypted at once, without a copy.
  public override func write(_ bytes: UnsafeRawBufferPointer) {
    guard isOpen, ssl != nil, !bytes.isEmpty else {
      if isInClear { super.write(bytes) }
      return
    }
    mayHold = false
    // The cork lives as long as the loop, which this stream retains.
    Unmanaged.passUnretained(loop.cork)._withUnsafeGuaranteedRef { gather(bytes, in: $0) }
  }

  @inline(__always)
  private func gather(_ bytes: UnsafeRawBufferPointer, in cork: OutputCork) {
    cork.claim(self)
    var rest = bytes
    if !cork.gathered.isEmpty {
      let room = min(Self.recordSize - cork.gathered.count, rest.count)
      cork.gathered.append(UnsafeRawBufferPointer(rebasing: rest[..<room]))
      rest = UnsafeRawBufferPointer(rebasing: rest[room...])
      if cork.gathered.count >= Self.recordSize { willFlush() }
    }
    if rest.count >= Self.recordSize {
      let whole = rest.count - rest.count % Self.recordSize
      seal(UnsafeRawBufferPointer(rebasing: rest[..<whole]))
      rest = UnsafeRawBufferPointer(rebasing: rest[whole...])
    }
    cork.gathered.append(rest)
  }

  public override func willFlush() {
    guard !loop.cork.gathered.isEmpty else { return }
    seal(loop.cork.gathered.readable)
    loop.cork.gathered.removeAll()
  }

  private func seal(_ bytes: UnsafeRawBufferPointer) {
    var done = 0
    while done < bytes.count, let ssl, !isClosed {
      let start = bytes.baseAddress.map { $0 + done }, rest = min(bytes.count - done, 1 << 20)
      var count = 0
      if isEarly {
        if SSL_write_early_data(ssl, start, rest, &count) != 1 { count = 0 }
      } else {
        count = Int(SSL_write(ssl, start, Int32(truncatingIfNeeded: rest)))
      }
      // Our BIO accepts every byte, so no retry is possible: a failure here is final.
      guard count > 0 else {
        return failLater(.protocolError("SSL_write() failed (SSL: \(OpenSSLReasons.take()))"))
      }
      done += count
    }
  }

  /// OpenSSL frees its buffers of 16 KiB whenever they are empty (SSL_MODE_RELEASE_BUFFERS): four times for each message
  /// that passes. An echo of 1 KiB spent a tenth of its instructions on that.
  public override func keepBuffers() {
    if let ssl { SSL_ctrl(ssl, SSL_CTRL_CLEAR_MODE, Int(SSL_MODE_RELEASE_BUFFERS), nil) }
  }

  public override func releaseBuffers() {
    guard let ssl else { return }
    SSL_ctrl(ssl, SSL_CTRL_MODE, Int(SSL_MODE_RELEASE_BUFFERS), nil)
    // It frees only what is empty, and OpenSSL makes new ones when it needs them.
    _ = SSL_free_buffers(ssl)
  }

  // MARK: Closing

  public override func writeEnd() {
    guard let ssl else { return }
    // The collected plaintext must be encrypted before the close_notify.
    loop.cork.claim(self)
    willFlush()
    ERR_clear_error()
    _ = SSL_shutdown(ssl)
    ERR_clear_error()
  }

  public override func released() {
    certificateChoice?.end()
    // Otherwise OpenSSL would treat the session as broken and drop it from the cache.
    if let ssl { SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN) }
    if case .client = side, lastPeer == nil, let ssl, let peer = copenssl_get0_peer_certificate(ssl) {
      X509_up_ref(peer)
      lastPeer = peer
    }
    SSL_free(ssl)
    ssl = nil
  }
}
