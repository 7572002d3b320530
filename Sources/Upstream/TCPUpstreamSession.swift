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
    negotiation = trust.negotiation
    guard let negotiation, !negotiation.isDone else { return }
    // A server with which TLS begins at once greets inside it.
    if tls != nil, negotiation.goal == .greetingOnly { awaitsGreeting = true } else { transport.awaitsHeader = true }
  }

  // MARK: Before TLS

  private var negotiation: UpstreamNegotiation?
  private var hasOpened = false
  /// The server greets inside TLS, and hasn't yet.
  private var awaitsGreeting = false
  /// What has come inside TLS, and isn't of the greeting yet.
  private var heard: [UInt8] = []

  override func streamHeaderIsReadable() {
    guard phase == .opening, var talk = negotiation else { return }
    if !hasOpened {
      hasOpened = true
      transport.answerHeader(talk.opening)
    }
    let room = UnsafeMutableRawBufferPointer(rebasing: transport.loop.readBuffer.prefix(UpstreamNegotiation.most))
    var input = UnsafeRawBufferPointer(start: nil, count: 0)
    switch transport.peek(into: room) {
    case .bytes(let count): input = UnsafeRawBufferPointer(rebasing: room[..<count])
    case .wouldBlock: return
    case .end, .failed:
      stream?.fail(.tls("upstream closed the connection in its negotiation of TLS"))
      return
    }
    let step = talk.take(input)
    negotiation = talk
    if step.consumed > 0, !transport.takeHeader(step.consumed) {
      stream?.fail(.tls("the upstream's negotiation of TLS can't be read"))
      return
    }
    transport.answerHeader(step.reply)
    switch step.next {
    // No edge tells again of the end that came together with the bytes.
    case .more: if transport.hasPeerEnd { endNegotiation(tookBytes: step.consumed > 0) }
    case .beginTLS, .done:
      stream?.greeting = talk.greeting
      transport.beginProtocol(isFollowed: step.consumed < input.count)
    case .end(let reason): stream?.fail(.tls(reason))
    }
  }

  /// Reads the greeting inside TLS, and opens the session behind it.
  private func readGreeting() {
    while phase == .opening, var talk = negotiation {
      switch transport.read(into: UnsafeMutableRawBufferPointer(rebasing: transport.loop.readBuffer.prefix(4096))) {
      case .bytes(let count): heard += transport.loop.readBuffer.prefix(count)
      case .wouldBlock: return
      case .end, .failed:
        stream?.fail(.tls("upstream closed the connection before its greeting"))
        return
      }
      let step = heard.withUnsafeBytes { talk.take($0) }
      negotiation = talk
      heard.removeFirst(step.consumed)
      switch step.next {
      case .more: continue
      case .beginTLS, .done:
        awaitsGreeting = false
        stream?.greeting = talk.greeting
        stream?.early = heard
        heard = []
        opened()
      case .end(let reason): stream?.fail(.tls(reason))
      }
    }
  }

  private func endNegotiation(tookBytes: Bool) {
    if tookBytes { return streamHeaderIsReadable() }
    stream?.fail(.tls("upstream closed the connection in its negotiation of TLS"))
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
    if awaitsGreeting { readGreeting() } else { opened() }
  }

  private func opened() {
    guard let stream, stream.hasObserver else { return close() }
    phase = .open
    transport.setDeadline(in: nil)
    stream.open()
  }

  override func streamIsReadable() {
    if phase == .open { stream?.pump() } else if awaitsGreeting { readGreeting() }
  }

  override func streamAgain() { streamIsReadable() }

  override func streamDidDrain() { stream?.transportDidDrain() }

  override func streamDidFail(_ failure: StreamFailure) {
    switch (phase, failure) {
    case (.opening, .socket(let error)): stream?.fail(.connect(error))
    case (.opening, .truncated): stream?.fail(.tls("peer closed connection"))
    case (.opening, .protocolError(let reason)): stream?.fail(.tls(reason))
    case (.open, _): stream?.inputDidEnd(inGoodOrder: false)
    case (.closed, _): break
    }
  }

  override func streamDeadlinePassed() { if phase == .opening { stream?.fail(.connectTimeout) } }

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
