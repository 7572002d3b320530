import Bytes
import HTTP
import Transport

/// One attempt's request and response on a session that carries one after another. A subclass knows their bytes.
class SerialUpstreamStream: UpstreamStream {
  enum Phase: Equatable {
    /// The session opens, or idles between attempts.
    case waiting
    case awaitingHead, readingBody, tunnel, closed
  }

  /// Which of the upstream's timeouts the deadline stands for.
  private enum Awaited {
    /// The rest of the request must come from the client, whose stream has its own deadline.
    case nothing
    case sending, response
  }

  private final let serial: SerialUpstreamSession
  final let transport: ByteStream
  final var phase = Phase.waiting
  // The request
  private final var isRequestSent = false
  // The response
  final var input = ByteBuffer()
  private(set) final var isPaused = false
  private final var asksAgain = false
  private final var awaited = Awaited.nothing
  private final var mark = ProgressMark()
  private final var interimHeads = 0

  static let readSize = 16 * 1024
  private static let pumpLimit = 1 << 20

  // The session owns its stream: the cycle ends when the session closes.
  init(_ session: SerialUpstreamSession, _ transport: ByteStream) {
    self.serial = session
    self.transport = transport
    super.init(session)
  }

  /// Whether an attempt is in progress.
  override final var isOpen: Bool { phase != .closed && phase != .waiting }

  // MARK: What a subclass knows

  /// Expects the head of the next response.
  func expectHead() {}
  /// Processes the input; returns false if the stream must not read for now.
  func consumeInput() -> Bool { false }
  /// Whether the body is whole if the connection ends now.
  func isWholeAtEnd() -> Bool { false }

  // MARK: An attempt

  override final func begin(_ observer: AttemptObserver, _ settings: AttemptSettings, on ticket: ServerTicket?) {
    super.begin(observer, settings, on: ticket)
    asksAgain = false
    isPaused = false
    reset()
  }

  private final func reset() {
    bytesReceived = 0
    bytesSent = 0
    interimHeads = 0
    withObserver { $0.hasFinalHead = false }
    isRequestSent = false
  }

  /// Begins the request, because the session is open.
  override final func open() {
    startAwaiting()
    withObserver { $0.attemptDidOpen(self) }
  }

  private final func startAwaiting() {
    phase = .awaitingHead
    expectHead()
    watchDeadline()
  }

  // MARK: The request

  /// Notes that all of the request is written, and starts the wait for the response.
  final func requestIsWritten() {
    isRequestSent = true
    watchDeadline()
  }

  final func write(_ bytes: UnsafeRawBufferPointer) {
    bytesSent &+= UInt64(bytes.count)
    transport.write(bytes)
    renewDeadline()
  }

  /// Bytes of the request that the upstream has not taken yet.
  override final var waitingBytes: Int { transport.pendingCount }

  /// Sends the bytes in the loop's cork at once.
  override final func flush() { transport.loop.cork.flush() }

  // MARK: The response

  /// Marks the response as a challenge. After it, the observer sends another request over this session.
  override final func askAgain() { asksAgain = true }

  override final func pause() {
    isPaused = true
    transport.setDeadline(in: nil)
  }

  override final func resume() {
    guard isPaused else { return }
    isPaused = false
    watchDeadline()
    pump()
  }

  /// Forwards bytes unchanged in both directions, after a 101.
  override final func becomeTunnel() {
    phase = .tunnel
    watchDeadline()
  }

  /// Gives up the attempt and closes the session. `isFailure`: the attempt counts as a failure of the server.
  override final func abandon(isFailure: Bool = false) {
    guard observer != nil else { return }
    observer = nil
    reportEnd(isFailure ? .failure : .unjudged)
    session.close()
  }

  // MARK: Deadlines

  private final func watchDeadline() {
    guard !isPaused, phase != .waiting, phase != .closed else { return }
    mark.set(transport.wireBytesOut)
    if transport.pendingCount > 0 {
      awaited = .sending
      transport.setDeadline(in: timeouts.send)
    } else if isRequestSent || phase == .tunnel {
      awaited = .response
      transport.setDeadline(in: timeouts.read)
    } else {
      awaited = .nothing
      transport.setDeadline(in: nil)
    }
  }

  /// Restarts the deadline after progress. Writing more bytes to an upstream that takes none is no progress.
  private final func renewDeadline() {
    if awaited != .sending || mark.isPassed(at: transport.wireBytesOut) { watchDeadline() }
  }

  final func transportDidDrain() {
    watchDeadline()
    observer?.attemptDidDrain()
  }

  override final func deadlinePassed() {
    // The upstream is slow but takes bytes: `proxy_send_timeout` applies between two writes, not to the whole request.
    if awaited == .sending, mark.isPassed(at: transport.wireBytesOut) { return watchDeadline() }
    if transport.pendingCount > 0 { return fail(.sendTimeout) }
    fail(phase == .readingBody ? .invalidBody("upstream timed out (110: Connection timed out)") : .readTimeout)
  }

  // MARK: Reading

  final func pump() {
    var taken = 0
    while !isPaused, phase != .closed, phase != .waiting {
      guard consumeInput() else { break }
      guard taken < Self.pumpLimit else {
        transport.loop.again(transport)
        break
      }
      guard transport.mayHaveInput else {
        if input.isEmpty { input.release() }
        if taken > 0 { renewDeadline() }
        break
      }
      input.reserve(Self.readSize)
      switch transport.read(into: input.writable) {
      case .bytes(let count):
        input.didWrite(count)
        taken += count
        bytesReceived &+= UInt64(count)
        continue
      case .wouldBlock:
        if input.isEmpty { input.release() }
        if taken > 0 { renewDeadline() }
      case .end: inputDidEnd(inGoodOrder: true)
      case .failed: inputDidEnd(inGoodOrder: false)
      }
      break
    }
    if taken > 0 { withObserver { $0.attemptDidPump() } }
  }

  /// Takes the head of an interim response. Returns false if nothing more must be read for now.
  final func takeInterim(_ head: ResponseHead, _ observer: AttemptObserver) -> Bool {
    interimHeads += 1
    guard interimHeads <= Self.interimLimit else {
      fail(.invalidBody("upstream sent more than \(Self.interimLimit) interim responses"))
      return false
    }
    return observer.attemptHead(head)
  }

  /// Takes the head of the final response. Returns false if nothing more must be read for now.
  final func takeHead(_ head: ResponseHead, _ observer: AttemptObserver) -> Bool {
    observer.hasFinalHead = true
    noteHead()
    phase = .readingBody
    return observer.attemptHead(head) && phase == .readingBody
  }

  /// Ends the attempt. `mayFollow`: by what the upstream said, the session can serve another one.
  final func responseDidEnd(mayFollow: Bool, _ trailers: Trailers? = nil) {
    guard let observerRef else { return session.close() }
    // Bytes after a complete response belong to no request.
    let isPoisoned = !input.isEmpty
    let isReusable =
      isRequestSent && !session.isOfOneClient && transport.pendingCount == 0 && mayFollow && !isPoisoned
      && !transport.hasPeerEnd
    input.release()
    if asksAgain { return endForAnother(observerRef.takeUnretainedValue(), isReusable: isReusable) }
    // The stream's count of the observer goes to this call, because the stream may begin its next attempt during it.
    self.observerRef = nil
    reportEnd(.success)
    phase = .waiting
    if isReusable { serial.keep() } else { session.close() }
    observerRef._withUnsafeGuaranteedRef { $0.attemptDidEnd(trailers: trailers) }
    observerRef.release()
  }

  private final func endForAnother(_ observer: AttemptObserver, isReusable: Bool) {
    asksAgain = false
    if isReusable && !(transport.mayHaveInput && session.hasUnsolicitedBytes()) {
      serial.beginAgain()
      reset()
      startAwaiting()
      observer.attemptMayAskAgain(self)
    } else {
      self.observer = nil
      reportEnd(.success)
      session.close()
      observer.attemptMayAskAgain(nil)
    }
  }

  // MARK: Ends

  /// Handles the end of the transport.
  final func inputDidEnd(inGoodOrder: Bool) {
    switch phase {
    case .awaitingHead: fail(transport.failure?.brokenReason.map { .broken($0) } ?? .closedBeforeHead)
    case .readingBody:
      if inGoodOrder && isWholeAtEnd() {
        responseDidEnd(mayFollow: false)
      } else {
        fail(.invalidBody(transport.failure?.brokenReason ?? "upstream prematurely closed connection"))
      }
    case .tunnel: observer?.tunnelDidEnd(inGoodOrder: inGoodOrder)
    case .waiting, .closed: session.close()
    }
  }

  override final func fail(_ failure: AttemptFailure) {
    let observer = observer
    self.observer = nil
    if observer != nil { reportEnd(saysNothing(failure) ? .unjudged : .failure) }
    session.close()
    observer?.attemptDidFail(failure)
  }

  /// Whether a failure says nothing about the server: a kept session ended before a byte came. A timeout does count.
  private final func saysNothing(_ failure: AttemptFailure) -> Bool {
    switch failure {
    case .closedBeforeHead, .broken: isOnKeptSession && bytesReceived == 0
    default: false
    }
  }

  final func sessionDidClose() {
    phase = .closed
    input.release()
  }
}
