public import HTTP
import Negotiation
import TLS
public import Transport

/// A session that carries the bytes of one client as they are (`stream`). It serves one attempt and is never kept.
///
///     opening ──► open ──► closed
final class TCPUpstreamSession: UpstreamSession {
  enum Phase: Equatable {
    case opening, open, closed
  }

  private(set) var phase = Phase.opening
  /// nil once the session is closed.
  private var stream: TCPUpstreamStream?

  override init(transport: ByteStream, tls: TLSStream?, server: Int, trust: UpstreamTrust, group: UpstreamGroup) {
    super.init(transport: transport, tls: tls, server: server, trust: trust, group: group)
    stream = TCPUpstreamStream(self, transport)
    transport.owner = self
    guard let negotiation = trust.negotiation, !negotiation.isDone else { return }
    // A server with which TLS begins at once greets inside it.
    if tls != nil, negotiation.goal == .greetingOnly {
      greeting = negotiation
    } else {
      talk = OpeningTalk(negotiation)
      transport.awaitsHeader = true
    }
  }

  // MARK: Before TLS

  /// nil: nothing is said in clear, or it has been said.
  private var talk: OpeningTalk<UpstreamNegotiation>?
  /// The server greets inside TLS, and hasn't yet; nil: it has, or doesn't.
  private var greeting: UpstreamNegotiation?
  /// What has come inside TLS, and isn't of the greeting yet.
  private var heard: [UInt8] = []

  override func headerIsReadable() {
    guard phase == .opening, var talk else { return }
    let turn = talk.advance(transport)
    self.talk = talk
    switch turn {
    case .wait: return
    case .done(let isFollowed):
      stream?.greeting = talk.machine.greeting
      self.talk = nil
      transport.beginProtocol(isFollowed: isFollowed)
    case .failed(.closed): stream?.fail(.tls("upstream closed the connection in its negotiation of TLS"))
    case .failed(.unreadable): stream?.fail(.tls("the upstream's negotiation of TLS can't be read"))
    case .failed(.refused(let reason)): stream?.fail(.tls(reason))
    }
  }

  override func tunnelDidOpen(isFollowed: Bool) {
    talk == nil ? super.tunnelDidOpen(isFollowed: isFollowed) : headerIsReadable()
  }

  /// Reads the greeting inside TLS, and opens the session behind it.
  private func readGreeting() {
    while phase == .opening, var talk = greeting {
      switch transport.read(into: UnsafeMutableRawBufferPointer(rebasing: transport.loop.readBuffer.prefix(4096))) {
      case .bytes(let count): heard += transport.loop.readBuffer.prefix(count)
      case .wouldBlock: return
      case .end, .failed:
        stream?.fail(.tls("upstream closed the connection before its greeting"))
        return
      }
      let step = heard.withUnsafeBytes { talk.take($0) }
      greeting = talk
      heard.removeFirst(step.consumed)
      switch step.next {
      case .more: continue
      case .beginTLS, .done:
        greeting = nil
        stream?.greeting = talk.greeting
        stream?.early = heard
        heard = []
        opened()
      case .end(let reason): stream?.fail(.tls(reason))
      }
    }
  }

  override func begin(_ observer: AttemptObserver, _ settings: AttemptSettings, on ticket: ServerTicket) {
    guard let stream else { return }
    requestsServed += 1
    stream.begin(observer, settings, on: ticket)
    observer.attemptDidBegin(stream)
    transport.setDeadline(in: settings.timeouts.connect)
  }

  // MARK: Transport events

  override func streamDidOpen() {
    guard phase == .opening else { return }
    guard let stream, stream.hasObserver else { return close() }
    trustOutcome = tls?.trustResult?.outcome ?? .none
    if greeting == nil { opened() } else { readGreeting() }
  }

  private func opened() {
    guard let stream, stream.hasObserver else { return close() }
    phase = .open
    transport.setDeadline(in: nil)
    stream.open()
  }

  override func streamIsReadable() {
    if phase == .open { stream?.pump() } else if greeting != nil { readGreeting() }
  }

  override func streamAgain() { streamIsReadable() }

  override func streamDidDrain() { stream?.transportDidDrain() }

  override func streamDidFail(_ failure: StreamFailure) {
    switch (phase, failure) {
    case (.opening, .socket(let error)): connectDidFail(error)
    case (.opening, .truncated): stream?.fail(.tls("peer closed connection"))
    case (.opening, .protocolError(let reason)): stream?.fail(.tls(reason))
    case (.open, _): stream?.inputDidEnd(inGoodOrder: false)
    case (.closed, _): break
    }
  }

  override func streamDeadlinePassed() { if phase == .opening { connectTimeDidPass() } }

  override func openingDidFail(_ failure: AttemptFailure) { stream?.fail(failure) }

  // MARK: Ends

  override func close() { end(.orderly) }

  /// Ends the connection so that the upstream can tell whether the client's bytes are all that the client sent.
  func end(_ closing: ByteStream.Closing) {
    guard phase != .closed else { return }
    phase = .closed
    stream?.sessionDidClose()
    stream = nil
    group.sessionDidClose(server)
    transport.close(closing)
  }
}

/// One client's bytes on a connection to an upstream. `send(body:)` sends, `requestDidEnd` ends the client's side, and
/// the observer gets `tunnelBytes` and `tunnelDidEnd`.
public final class TCPUpstreamStream: UpstreamStream {
  private let tcp: TCPUpstreamSession
  private let transport: ByteStream
  private var isPaused = true
  /// Bytes that may be read before the observer gives more (`proxy_download_rate`).
  public var allowance = Int.max
  /// What the upstream said before TLS, or before the client's bytes.
  public internal(set) var greeting: [UInt8] = []
  /// Bytes behind the greeting that have been read with it.
  var early: [UInt8] = []
  /// The upstream's side has ended, so that nothing more is read.
  private var hasEnded = false
  /// The client's side has ended, and bytes of it still wait.
  private var endsWhenDrained = false
  /// Bytes that one turn of the loop reads.
  private static let pumpLimit = 1 << 20

  // The session owns its stream: the cycle ends when the session closes.
  init(_ session: TCPUpstreamSession, _ transport: ByteStream) {
    self.tcp = session
    self.transport = transport
    super.init(session)
  }

  public override var isOpen: Bool { tcp.phase == .open }

  override func open() {
    if !session.group.measuresFirstByte { noteHead() }
    noteConnected()
    withObserver { $0.attemptDidOpen(self) }
  }

  // MARK: The client's bytes

  public override func send(body bytes: UnsafeRawBufferPointer) {
    bytesSent &+= UInt64(bytes.count)
    transport.write(bytes)
  }

  public override var waitingBytes: Int { transport.pendingCount }

  public override func flush() { transport.loop.cork.flush() }

  /// Ends the client's side, behind the bytes that wait.
  public override func requestDidEnd(_ trailers: Trailers? = nil) {
    flush()
    guard transport.pendingCount == 0 else {
      endsWhenDrained = true
      return
    }
    transport.endOutput()
  }

  func transportDidDrain() {
    if endsWhenDrained {
      endsWhenDrained = false
      transport.endOutput()
    }
    observer?.attemptDidDrain()
  }

  // MARK: The upstream's bytes

  public override func pause() { isPaused = true }

  public override func resume() {
    guard isPaused else { return }
    isPaused = false
    pump()
  }

  func pump() {
    var taken = 0
    if !isPaused, !early.isEmpty, tcp.phase == .open {
      let bytes = early
      early = []
      noteHead()
      bytesReceived &+= UInt64(bytes.count)
      withObserver { observer in bytes.withUnsafeBytes { observer.tunnelBytes($0) } }
    }
    while !isPaused, !hasEnded, tcp.phase == .open, transport.mayHaveInput {
      guard taken < Self.pumpLimit else { return transport.loop.again(transport) }
      let room = min(allowance, loop.readBuffer.count)
      guard room > 0 else { return withObserver { $0.tunnelAllowanceDidEnd() } ?? () }
      switch transport.read(into: UnsafeMutableRawBufferPointer(rebasing: loop.readBuffer[..<room])) {
      case .bytes(let count):
        taken += count
        if allowance != Int.max { allowance -= count }
        if bytesReceived == 0 { noteHead() }
        bytesReceived &+= UInt64(count)
        withObserver { $0.tunnelBytes(UnsafeRawBufferPointer(rebasing: loop.readBuffer[..<count])) }
      case .wouldBlock: return
      case .end: return inputDidEnd(inGoodOrder: true)
      case .failed: return inputDidEnd(inGoodOrder: false)
      }
    }
  }

  func inputDidEnd(inGoodOrder: Bool) {
    guard !hasEnded else { return }
    hasEnded = true
    observer?.tunnelDidEnd(inGoodOrder: inGoodOrder)
  }

  // MARK: Ends

  /// The session is over. `closing`: how the upstream is told.
  public func end(_ closing: ByteStream.Closing) {
    observer = nil
    reportEnd(.success)
    tcp.end(closing)
  }

  public override func abandon(isFailure: Bool = false) {
    guard observer != nil else { return }
    observer = nil
    reportEnd(isFailure ? .failure : .unjudged)
    tcp.end(.orderly)
  }

  override func fail(_ failure: AttemptFailure) {
    let observer = observer
    self.observer = nil
    if observer != nil { reportEnd(.failure) }
    tcp.end(.orderly)
    observer?.attemptDidFail(failure)
  }

  func sessionDidClose() {
    guard hasObserver else { return }
    observer = nil
    reportEnd(.unjudged)
  }
}
