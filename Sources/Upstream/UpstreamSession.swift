public import TLS
public import Transport

/// One transport to one server of a group: the socket, TLS, how the upstream was judged, and a place among the idle
/// sessions of the group.
///
///     opening ──► serving ──► idle ──► serving …     `UpstreamStream` carries one attempt's request and response
///        │            └────────┴──► closed
///        └──► closed
///
/// The session is separate from its stream: verification and keeping concern the transport, while each attempt is
/// another request. Over HTTP/2, one session will have several streams.
public final class UpstreamSession: StreamOwner {
  enum Phase: Equatable {
    case opening, idle, serving, closed
  }

  let transport: ByteStream
  private let tls: TLSStream?
  /// Index in the group's servers.
  public let server: Int
  /// The policy by which the upstream was judged. A kept session never serves an attempt under another policy.
  let trust: UpstreamTrust
  /// How the upstream was judged; `.none` until the session is open.
  public private(set) var trustOutcome = TrustOutcome.none
  /// Attempts that this session has served, the present one included.
  public private(set) var requestsServed = 0
  let openedAt: UInt64
  /// Since when the session waits for an attempt, in milliseconds of the loop's clock.
  var idleSince: UInt64 = 0
  private(set) var phase = Phase.opening
  /// Whether the session is authenticated by NTLM, as the user of its trust.
  package var isAuthenticated = false
  /// The upstream may attribute every later request over this session to this client, so the group doesn't keep it.
  public var isOfOneClient = false
  private let group: UpstreamGroup
  /// nil once the session is closed.
  private(set) var stream: UpstreamStream?

  /// `tls`: the transport again if it has TLS, otherwise nil.
  init(transport: ByteStream, tls: TLSStream?, server: Int, trust: UpstreamTrust, group: UpstreamGroup) {
    self.transport = transport
    self.tls = tls
    self.server = server
    self.trust = trust
    self.group = group
    self.openedAt = transport.loop.now
    super.init()
    stream = UpstreamStream(self, transport)
    transport.owner = self
  }

  /// Whether the session served an attempt before this one.
  public var isKept: Bool { requestsServed > 1 }

  /// What TLS knows of the upstream. Hashes a certificate: not for the hot path.
  public var peer: UpstreamPeer { tls.map { UpstreamPeer($0) } ?? UpstreamPeer() }

  // MARK: Attempts

  /// Begins an attempt: at once on a kept session, else as soon as the session is open.
  func begin(_ observer: AttemptObserver, _ settings: AttemptSettings) {
    guard let stream else { return }
    requestsServed += 1
    stream.begin(observer, settings)
    observer.attemptDidBegin(stream)
    guard phase == .idle else { return transport.setDeadline(in: settings.timeouts.connect) }
    phase = .serving
    stream.open()
  }

  /// Counts one more request over the same session: the answer to a challenge.
  func beginAgain() { requestsServed += 1 }

  /// Reports the end of an attempt to the group; the session may continue.
  func attemptDidEnd(_ outcome: Balancer.AttemptResult) { group.attemptDidEnd(self, outcome) }

  /// Returns the session to its group, unless unexpected bytes have come.
  func keep() {
    if transport.mayHaveInput && hasUnsolicitedBytes() { return close() }
    phase = .idle
    group.keep(self)
  }

  /// Whether bytes, an end or a failure came before a request was made.
  func hasUnsolicitedBytes() -> Bool {
    let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 512, alignment: 1)
    defer { room.deallocate() }
    switch transport.read(into: room) {
    case .wouldBlock: return false
    case .bytes, .end, .failed: return true
    }
  }

  // MARK: Transport events

  public override func streamDidOpen() {
    guard phase == .opening else { return }
    guard let stream, stream.hasObserver else { return close() }
    trustOutcome = tls?.trustResult?.outcome ?? .none
    if hasUnsolicitedBytes() { return stream.fail(.unsolicitedBytes) }
    phase = .serving
    stream.open()
  }

  public override func streamIsReadable() {
    switch phase {
    // After a FIN, an alert or unexpected bytes, the session can't serve another request.
    case .idle: if hasUnsolicitedBytes() || transport.hasPeerEnd { drop() }
    case .serving: stream?.pump()
    case .opening, .closed: break
    }
  }

  public override func streamAgain() {
    streamIsReadable()
    if phase == .serving { stream?.continueSending() }
  }

  public override func streamDidDrain() { stream?.transportDidDrain() }

  public override func streamDidFail(_ failure: StreamFailure) {
    switch (phase, failure) {
    case (.idle, _): drop()
    case (.opening, .socket(let error)): stream?.fail(.connect(error))
    case (.opening, .truncated): stream?.fail(.tls("peer closed connection"))
    case (.opening, .protocolError(let reason)): stream?.fail(.tls(reason))
    default: stream?.inputDidEnd(inGoodOrder: false)
    }
  }

  public override func streamDeadlinePassed() {
    switch phase {
    case .opening: stream?.fail(.connectTimeout)
    case .idle: drop()
    case .serving: stream?.deadlinePassed()
    case .closed: break
    }
  }

  // MARK: Ends

  /// Closes an idle session that can't serve another attempt.
  private func drop() {
    group.forget(self)
    close()
  }

  func close() {
    guard phase != .closed else { return }
    phase = .closed
    stream?.sessionDidClose()
    stream = nil
    group.sessionDidClose()
    transport.close()
  }
}
