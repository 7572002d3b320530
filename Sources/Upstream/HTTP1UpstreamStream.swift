import Bytes
import HTTP
import Transport

/// One attempt's request and response on a session, as HTTP/1 carries them. Only this class encodes and frames HTTP/1 for
/// upstreams.
final class HTTP1UpstreamStream: UpstreamStream {
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

  private let http1: HTTP1UpstreamSession
  private let transport: ByteStream
  private(set) var phase = Phase.waiting
  // The request
  private var method = HTTP.Method.get, requestFraming = BodyFraming.none, isRequestSent = false
  // The response
  private var input = ByteBuffer(), parser = HeadParser(), decoder = BodyDecoder(.none)
  private var isPaused = false, asksAgain = false
  private var awaited = Awaited.nothing
  private var mark = ProgressMark()
  private var interimHeads = 0

  private static let readSize = 16 * 1024, pumpLimit = 1 << 20

  // The session owns its stream: the cycle ends when the session closes.
  init(_ session: HTTP1UpstreamSession, _ transport: ByteStream) {
    self.http1 = session
    self.transport = transport
    super.init(session)
  }

  /// Whether an attempt is in progress.
  override var isOpen: Bool { phase != .closed && phase != .waiting }

  // MARK: An attempt

  override func begin(_ observer: AttemptObserver, _ settings: AttemptSettings, on ticket: ServerTicket?) {
    super.begin(observer, settings, on: ticket)
    asksAgain = false
    isPaused = false
    reset()
  }

  private func reset() {
    bytesReceived = 0
    bytesSent = 0
    interimHeads = 0
    withObserver { $0.hasFinalHead = false }
    isRequestSent = false
  }

  /// Begins the request, because the session is open.
  override func open() {
    startAwaiting()
    withObserver { $0.attemptDidOpen(self) }
  }

  private func startAwaiting() {
    phase = .awaitingHead
    parser = HeadParser()
    watchDeadline()
  }

  // MARK: The request

  override func send(
    head: OutgoingRequestHead, _ version: UpstreamVersion, _ method: HTTP.Method, scratch: inout ByteBuffer
  ) {
    self.method = method
    requestFraming = head.framing
    scratch.removeAll()
    HTTP1Encoder.request(head, version == .http10 ? .http10 : .http11, to: &scratch)
    write(scratch.readable)
  }

  /// Sends bytes of the request's body.
  override func send(body bytes: UnsafeRawBufferPointer) {
    guard requestFraming == .chunked, phase != .tunnel else { return write(bytes) }
    guard !bytes.isEmpty else { return }
    var line = ByteBuffer(capacity: 20)
    ChunkedWriter.append(size: bytes.count, to: &line)
    write(line.readable)
    write(bytes)
    line.removeAll()
    ChunkedWriter.endChunk(to: &line)
    write(line.readable)
  }

  /// Ends the request and starts the wait for the response. Trailers go out only with chunked framing.
  override func requestDidEnd(_ trailers: Trailers? = nil) {
    if requestFraming == .chunked {
      var end = ByteBuffer(capacity: 64)
      ChunkedWriter.lastChunk(trailers, to: &end)
      write(end.readable)
    }
    isRequestSent = true
    watchDeadline()
  }

  private func write(_ bytes: UnsafeRawBufferPointer) {
    bytesSent &+= UInt64(bytes.count)
    transport.write(bytes)
    renewDeadline()
  }

  /// Bytes of the request that the upstream has not taken yet.
  override var waitingBytes: Int { transport.pendingCount }

  /// Sends the bytes in the loop's cork at once.
  override func flush() { transport.loop.cork.flush() }

  // MARK: The response

  /// Marks the response as a challenge. After it, the observer sends another request over this session.
  override func askAgain() { asksAgain = true }

  override func pause() {
    isPaused = true
    transport.setDeadline(in: nil)
  }

  override func resume() {
    guard isPaused else { return }
    isPaused = false
    watchDeadline()
    pump()
  }

  /// Forwards bytes unchanged in both directions, after a 101.
  override func becomeTunnel() {
    phase = .tunnel
    watchDeadline()
  }

  /// Gives up the attempt and closes the session. `isFailure`: the attempt counts as a failure of the server.
  override func abandon(isFailure: Bool = false) {
    guard observer != nil else { return }
    observer = nil
    reportEnd(isFailure ? .failure : .unjudged)
    session.close()
  }

  // MARK: Deadlines

  private func watchDeadline() {
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
  private func renewDeadline() {
    if awaited != .sending || mark.isPassed(at: transport.wireBytesOut) { watchDeadline() }
  }

  func transportDidDrain() {
    watchDeadline()
    observer?.attemptDidDrain()
  }

  override func deadlinePassed() {
    // The upstream is slow but takes bytes: `proxy_send_timeout` applies between two writes, not to the whole request.
    if awaited == .sending, mark.isPassed(at: transport.wireBytesOut) { return watchDeadline() }
    if transport.pendingCount > 0 { return fail(.sendTimeout) }
    fail(phase == .readingBody ? .invalidBody("upstream timed out (110: Connection timed out)") : .readTimeout)
  }

  // MARK: Reading

  func pump() {
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

  /// Processes the input; returns false if the stream must not read for now.
  private func consumeInput() -> Bool {
    while !input.isEmpty {
      switch phase {
      case .awaitingHead:
        // A body may follow that needs more input. Without another read now, no edge would announce that input.
        guard consumeHead() else { return phase == .awaitingHead || phase == .readingBody }
      case .readingBody: guard consumeBody() else { return phase == .readingBody }
      case .tunnel:
        observer?.tunnelBytes(input.readable)
        input.removeAll()
      case .waiting, .closed: return false
      }
      if isPaused { return false }
    }
    return phase != .closed && phase != .waiting
  }

  /// Returns true if a head was consumed and more input may follow.
  private func consumeHead() -> Bool { withObserver { consumeHead($0) } ?? false }

  private func consumeHead(_ observer: AttemptObserver) -> Bool {
    guard bytesSent > 0 else {
      fail(.unsolicitedBytes)
      return false
    }
    let head = observer.answer
    switch parser.response(input.readable, limits: limits, requestMethod: method, into: head) {
    case .incomplete: return false
    case .failed(let error):
      fail(.invalidHead(error))
      return false
    case .complete(let consumed):
      input.consume(consumed)
      parser = HeadParser()
      if head.isInterim {
        interimHeads += 1
        guard interimHeads <= Self.interimLimit else {
          fail(.invalidBody("upstream sent more than \(Self.interimLimit) interim responses"))
          return false
        }
        return observer.attemptHead(head)
      }
      observer.hasFinalHead = true
      noteHead()
      phase = .readingBody
      decoder = BodyDecoder(head.framing)
      guard observer.attemptHead(head), phase == .readingBody else { return phase == .tunnel }
      // An empty body ends without further input.
      return consumeBody()
    }
  }

  private func consumeBody() -> Bool {
    while phase == .readingBody {
      switch decoder.next(input.readable) {
      case .needsMore(let consumed):
        input.consume(consumed)
        return false
      case .data(let start, let count, let consumed):
        let bytes = input.readable[ByteRange(start: start, count: count)]
        withObserver { $0.attemptBody(bytes) }
        guard phase == .readingBody else { return false }
        input.consume(consumed)
      case .end(let consumed):
        input.consume(consumed)
        responseDidEnd()
        return false
      case .failed(let error):
        fail(.invalidBody("upstream sent an invalid body: \(error.reason)"))
        return false
      }
    }
    return false
  }

  private func responseDidEnd() {
    guard let observerRef else { return session.close() }
    // Bytes after a complete response belong to no request.
    let isPoisoned = !input.isEmpty
    let mayFollow = observerRef._withUnsafeGuaranteedRef { $0.answer.keepsAlive && $0.answer.framing != .untilClose }
    let isReusable =
      isRequestSent && !session.isOfOneClient && transport.pendingCount == 0 && mayFollow && !isPoisoned
      && !transport.hasPeerEnd
    input.release()
    if asksAgain { return endForAnother(observerRef.takeUnretainedValue(), isReusable: isReusable) }
    // The stream's count of the observer goes to this call, because the stream may begin its next attempt during it.
    self.observerRef = nil
    let trailers = decoder.trailers
    reportEnd(.success)
    phase = .waiting
    if isReusable { http1.keep() } else { session.close() }
    observerRef._withUnsafeGuaranteedRef { $0.attemptDidEnd(trailers: trailers) }
    observerRef.release()
  }

  private func endForAnother(_ observer: AttemptObserver, isReusable: Bool) {
    asksAgain = false
    if isReusable && !(transport.mayHaveInput && session.hasUnsolicitedBytes()) {
      http1.beginAgain()
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
  func inputDidEnd(inGoodOrder: Bool) {
    switch phase {
    case .awaitingHead: fail(transport.failure?.brokenReason.map { .broken($0) } ?? .closedBeforeHead)
    case .readingBody:
      if inGoodOrder && decoder.atEndOfStream() == .complete {
        responseDidEnd()
      } else {
        fail(.invalidBody(transport.failure?.brokenReason ?? "upstream prematurely closed connection"))
      }
    case .tunnel: observer?.tunnelDidEnd(inGoodOrder: inGoodOrder)
    case .waiting, .closed: session.close()
    }
  }

  override func fail(_ failure: AttemptFailure) {
    let observer = observer
    self.observer = nil
    if observer != nil { reportEnd(saysNothing(failure) ? .unjudged : .failure) }
    session.close()
    observer?.attemptDidFail(failure)
  }

  /// Whether a failure says nothing about the server: a kept session ended before a byte came. A timeout does count.
  private func saysNothing(_ failure: AttemptFailure) -> Bool {
    switch failure {
    case .closedBeforeHead, .broken: isOnKeptSession && bytesReceived == 0
    default: false
    }
  }

  func sessionDidClose() {
    phase = .closed
    input.release()
  }
}
