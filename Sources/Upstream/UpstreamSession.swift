import Bytes
import Glibc
import Negotiation
public import TLS
public import Transport

/// One transport to one server of a group: the socket, TLS, how the upstream was judged, and a place among the kept
/// sessions of the group.
///
/// The session is separate from its streams: verification and keeping concern the transport, while each attempt is
/// another request.
public class UpstreamSession: StreamOwner {
  final let transport: ByteStream
  final let tls: TLSStream?
  /// Index in the group's servers.
  public final let server: Int
  /// The policy by which the upstream was judged. A kept session never serves an attempt under another policy.
  final let trust: UpstreamTrust
  /// How the upstream was judged; `.none` until the session is open.
  public final internal(set) var trustOutcome = TrustOutcome.none
  /// Attempts that this session has served, the present ones included.
  public final internal(set) var requestsServed = 0
  final let openedAt: UInt64
  /// Since when the session waits for an attempt, in milliseconds of the loop's clock.
  public final internal(set) var idleSince: UInt64 = 0
  /// Whether the session is authenticated by NTLM, as the user of its trust.
  package final var isAuthenticated = false
  /// The upstream may attribute every later request over this session to this client, so the group doesn't keep it.
  public final var isOfOneClient = false
  final let group: UpstreamGroup
  /// What the metrics count of the server; nil if no location shows metrics.
  public final let meter: AttemptMeter?
  /// Which location opened the session, for `keepalive … local`.
  final var place: ObjectIdentifier?

  /// `tls`: the transport again if it has TLS, otherwise nil.
  init(transport: ByteStream, tls: TLSStream?, server: Int, trust: UpstreamTrust, group: UpstreamGroup) {
    self.transport = transport
    self.tls = tls
    self.server = server
    self.trust = trust
    self.group = group
    self.meter = group.meter?.server(server)
    self.openedAt = transport.loop.now
    super.init()
  }

  /// What TLS knows of the upstream. Hashes a certificate: not for the hot path.
  public final var peer: UpstreamPeer { tls.map { UpstreamPeer($0) } ?? UpstreamPeer() }

  /// The group of the handshake; nil without TLS.
  public final var keyExchange: KeyExchange? { tls?.keyExchange }

  /// Our address of the connection, for the error log. Asks the kernel.
  public final var localAddress: String { Sockets.localAddress(of: transport.descriptor)?.description ?? "" }

  /// Whether TLS has judged the upstream.
  public final var isJudged: Bool { tls != nil && trustOutcome != .none }

  /// From when on the upstream is to be judged again, in seconds since 1970; `.max`: never.
  public final var judgementEnd: Int64 { tls?.judgementEnd ?? .max }

  /// The settings by which the upstream was judged; nil without TLS.
  public final var settings: UpstreamTLSSettings? { tls?.upstreamSettings }

  /// Judges the upstream again if need be. Returns why it is refused now. See `TLSStream.upstreamRefusal`.
  public final func refusal(by context: UpstreamTLSContext?, at now: Int64) -> UpstreamRefusal? {
    tls?.upstreamRefusal(by: context, at: now)
  }

  /// Whether another request may go over the session: the certificate of the upstream, and the lists by which it was
  /// judged, have not ended since, or it is judged well again.
  @inline(never)
  final var isStillTrusted: Bool { tls?.isStillTrusted(at: Int64(time(nil))) ?? true }

  /// Whether the handshake resumed a TLS session.
  public final var isResumed: Bool { tls?.isResumed ?? false }

  /// Begins an attempt: at once on an open session, else as soon as it is open.
  func begin(_ observer: AttemptObserver, _ settings: AttemptSettings, on ticket: ServerTicket) {}

  /// Whether bytes, an end or a failure came before a request was made.
  final func hasUnsolicitedBytes() -> Bool {
    let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 512, alignment: 1)
    defer { room.deallocate() }
    switch transport.read(into: room) {
    case .wouldBlock: return false
    case .bytes, .end, .failed: return true
    }
  }

  func close() {}

  // MARK: Through a proxy

  /// nil: the connection goes to the upstream itself, or the tunnel is open.
  private final var tunnel: OpeningTalk<TunnelNegotiation>?

  /// Has the connection, which goes to a proxy, begin with the request for a tunnel to the upstream.
  final func ask(_ proxy: ConnectProxy, for authority: String) {
    let field = proxy.credentials?.field.withUnsafeBytes { Array($0) } ?? []
    tunnel = OpeningTalk(TunnelNegotiation(authority: authority, authorization: field))
    transport.awaitsHeader = true
  }

  final override public func streamHeaderIsReadable() {
    guard var talk = tunnel, let proxy = trust.origin.proxy else { return headerIsReadable() }
    let turn = talk.advance(transport)
    tunnel = talk
    switch turn {
    case .wait: return
    case .done(let isFollowed):
      tunnel = nil
      // What tells of the client is for the upstream.
      transport.answerHeader(trust.origin.header)
      tunnelDidOpen(isFollowed: isFollowed)
    case .failed(.closed): openingDidFail(.proxy(proxy.name, .answer("it closed the connection")))
    case .failed(.unreadable): openingDidFail(.proxy(proxy.name, .answer("its response can't be read")))
    case .failed(.refused(let reason)): openingDidFail(.proxy(proxy.name, .answer(reason)))
    }
  }

  /// The socket has failed before the session was open.
  final func connectDidFail(_ error: SocketError) {
    guard tunnel != nil, let proxy = trust.origin.proxy else { return openingDidFail(.connect(error)) }
    group.proxyDidFail()
    openingDidFail(.proxy(proxy.name, .connect(error)))
  }

  /// `proxy_connect_timeout` has passed.
  final func connectTimeDidPass() {
    guard tunnel != nil, let proxy = trust.origin.proxy else { return openingDidFail(.connectTimeout) }
    group.proxyDidFail()
    openingDidFail(.proxy(proxy.name, .timeout))
  }

  /// Bytes may have come that the session reads before its protocol, inside the tunnel if there is one.
  func headerIsReadable() {}
  func tunnelDidOpen(isFollowed: Bool) { transport.beginProtocol(isFollowed: isFollowed) }
  /// The session can't be opened: tells whoever waits for it.
  func openingDidFail(_ failure: AttemptFailure) {}
}
