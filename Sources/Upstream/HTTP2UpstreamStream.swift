import Bytes
import HTTP
import Transport

/// One attempt's request and response, as a stream of HTTP/2.
///
///     request:   the sending half
///     response:  head ──► the receiving half ──► over
final class HTTP2UpstreamStream: UpstreamStream {
  private enum Response: Equatable {
    case awaitingHead, readingBody, over
  }

  private let http2: HTTP2UpstreamSession
  private let wasKept: Bool
  /// 0 until the request's head was sent.
  private var id: Int32 = 0
  private(set) var method = HTTP.Method.get
  private var request = HTTP2SendingHalf(in: nil)
  private var response = Response.awaitingHead
  private var input = HTTP2ReceivingHalf(isPaused: false)
  private var asksAgain = false
  private var interimHeads = 0
  /// Whether the request's head has gone to the upstream. libnghttp2 keeps it back while the upstream allows no more streams.
  var isOnWire = false
  /// Whether a RST_STREAM of ours ends the stream: libnghttp2's, which found a fault of the upstream, where an observer is left.
  var isResetByUs = false

  init(_ session: HTTP2UpstreamSession, isOnKeptSession: Bool) {
    http2 = session
    wasKept = isOnKeptSession
    super.init(session)
  }

  override var isOnKeptSession: Bool { wasKept }

  override var mayBeRefused: Bool { true }

  override var isOpen: Bool {
    if case .over = response { return false }
    return hasObserver && id > 0
  }

  /// Whether somebody takes what the upstream still sends on this stream.
  var takesInput: Bool {
    response != .over && input.takesInput && hasObserver
  }

  var hasFinalHead: Bool {
    if case .awaitingHead = response { false } else { true }
  }

  override func begin(_ observer: AttemptObserver, _ settings: AttemptSettings, on ticket: ServerTicket?) {
    super.begin(observer, settings, on: ticket)
    observer.hasFinalHead = false
  }

  override func open() { withObserver { $0.attemptDidOpen(self) } }

  // MARK: The request

  override func send(
    head: OutgoingRequestHead, _ version: UpstreamVersion, _ method: HTTP.Method, scratch: inout ByteBuffer
  ) {
    self.method = method
    let hasBody =
      switch head.framing {
      case .none, .length(0): false
      case .length, .chunked, .untilClose: true
      }
    let pointer = Unmanaged.passUnretained(self).toOpaque()
    guard let id = HTTP2Encoder.request(head, http2.frames, pointer, isTLS: http2.isTLS, hasBody: hasBody) else {
      return failLater()
    }
    self.id = id
    request.begin(hasBody: hasBody)
    http2.hasOutput()
    watchDeadline()
  }

  /// The session takes no more streams. The observer is in the middle of a call, so it hears of it later.
  private func failLater() {
    response = .over
    loop.again(self)
  }

  override func again() {
    if case .over = response, hasObserver, id == 0 { return fail(.refusedStream) }
  }

  override func send(body bytes: UnsafeRawBufferPointer) {
    guard request.append(bytes) else { return }
    bytesSent &+= UInt64(bytes.count)
    announce()
    watchDeadline()
  }

  override func requestDidEnd(_ trailers: Trailers?) {
    if request.end(trailers) { announce() }
    watchDeadline()
  }

  private func announce() {
    if request.mustResume() { http2.frames.resume(id) }
    http2.hasOutput()
  }

  override var waitingBytes: Int { request.count }

  /// What the stream has ready, at most `room` bytes.
  func ready(room: Int) -> HTTP2Output { request.ready(room: room) }
  var pendingTrailers: Trailers? { request.trailers }

  /// Writes the first `count` pending bytes. Returns whether these were the last ones and more may come.
  func write(_ count: Int, to transport: ByteStream) -> Bool {
    transport.write(request.first(count))
    request.didTake(count)
    return count > 0 && request.isEmpty
  }

  /// The upstream has taken all pending bytes.
  func didDrain() {
    guard hasObserver, request.isEmpty else { return }
    watchDeadline()
    if request.isOpen { withObserver { $0.attemptDidDrain() } }
  }

  // MARK: The response

  override func askAgain() { asksAgain = true }

  override func pause() {
    _ = input.pause()
    setDeadline(in: nil)
  }

  override func resume() {
    guard let arrived = input.resume() else { return }
    // The observer may pause, or give up, within the call.
    if !arrived.isEmpty { deliver(arrived.readable) }
    guard input.isFlowing, hasObserver else { return }
    watchDeadline()
    if case .whole(let trailers) = input.settled { deliverEnd(trailers) }
  }

  /// A head is complete; it is in the observer's `answer`.
  func headDidArrive(_ observer: AttemptObserver, endsStream: Bool) {
    let head = observer.answer
    bytesReceived &+= UInt64(head.byteCount)
    watchDeadline()
    if head.isInterim {
      interimHeads += 1
      guard interimHeads <= Self.interimLimit else {
        return fail(.invalidBody("upstream sent more than \(Self.interimLimit) interim responses"))
      }
      _ = observer.attemptHead(head)
      return
    }
    observer.hasFinalHead = true
    noteHead()
    response = .readingBody
    if endsStream { _ = input.arriveEnd(nil) }
    if observer.attemptHead(head), hasObserver, endsStream, input.isFlowing { deliverEnd(nil) }
  }

  /// Bytes of the response's body have arrived.
  func inputDidArrive(_ bytes: UnsafeRawBufferPointer) {
    bytesReceived &+= UInt64(bytes.count)
    guard hasObserver else { return http2.frames.credit(id, bytes.count) }
    guard input.arrive(bytes) else { return }
    deliver(bytes)
    if hasObserver { watchDeadline() }
  }

  private func deliver(_ bytes: UnsafeRawBufferPointer) {
    withObserver { $0.attemptBody(bytes) }
    http2.frames.credit(id, bytes.count)
    http2.hasOutput()
  }

  /// The upstream has ended its side of the stream.
  func inputDidEnd(_ trailers: Trailers?) {
    guard response == .readingBody, !input.hasEnded else { return }
    if input.arriveEnd(trailers) { deliverEnd(trailers) }
  }

  private func deliverEnd(_ trailers: Trailers?) {
    guard let observer else { return }
    response = .over
    finish()
    let session = http2
    if asksAgain, !session.takesAttempts {
      // The session ends: the next request goes over another one.
      self.observer = nil
      reportEnd(.success)
      return observer.attemptMayAskAgain(nil)
    }
    if asksAgain {
      let next = session.makeStream(observer, AttemptSettings(timeouts: timeouts, headLimits: limits), on: nil)
      next.continueAttempt(of: self)
      self.observer = nil
      observer.attemptDidBegin(next)
      return observer.attemptMayAskAgain(next)
    }
    self.observer = nil
    reportEnd(.success)
    observer.attemptDidEnd(trailers: trailers)
  }

  /// Takes the deadline back, and stops a request that the upstream answered before its end (RFC 9113 §8.1).
  private func finish() {
    loop.forgetDeadline(of: self)
    if request.isOpen, id > 0 {
      http2.frames.reset(id, .cancel)
      http2.hasOutput()
    }
  }

  // MARK: Deadlines

  private func watchDeadline() {
    guard !input.isPaused, hasObserver else { return }
    request.setMark()
    if !request.isEmpty {
      setDeadline(in: timeouts.send)
    } else if request.hasEnded {
      setDeadline(in: timeouts.read)
    } else {
      setDeadline(in: nil)
    }
  }

  override func deadlinePassed() {
    // The upstream is slow but takes bytes: `proxy_send_timeout` applies between two writes.
    if request.isSlowButMoving { return watchDeadline() }
    if !request.isEmpty { return fail(.sendTimeout) }
    http2.streamDidTimeOut(after: timeouts.read)
    fail(hasFinalHead ? .invalidBody("upstream timed out (110: Connection timed out)") : .readTimeout)
  }

  // MARK: Ends

  override func abandon(isFailure: Bool) {
    guard hasObserver else { return }
    observer = nil
    end(isFailure ? .failure : .unjudged)
  }

  override func fail(_ failure: AttemptFailure) {
    guard let observer else { return }
    self.observer = nil
    end(saysNothing(failure) ? .unjudged : .failure)
    observer.attemptDidFail(failure)
  }

  private func end(_ result: Balancer.AttemptResult) {
    loop.forgetDeadline(of: self)
    input.dropReceived()
    request.dropWaiting()
    if id > 0 {
      http2.frames.reset(id, .cancel)
      http2.hasOutput()
    } else {
      http2.remove(self)
    }
    reportEnd(result)
  }

  /// Whether the response came whole, and its end waits for the client.
  private var isWhole: Bool { response == .readingBody && input.hasEnded }

  /// libnghttp2 has closed the stream, for this reason.
  func didClose(code: UInt32) {
    id = 0
    if isWhole { return }
    if case .refusedStream? = HTTP2ErrorCode(rawValue: code) { http2.hasRefused = true }
    guard hasObserver else { return loop.forgetDeadline(of: self) }
    sessionDidEnd(
      isResetByUs ? .invalidStream("upstream sent an invalid response (\(Self.text(code)))") : Self.failure(code))
  }

  /// The stream ended before its response: by itself, or with its session.
  func sessionDidEnd(_ failure: AttemptFailure) {
    id = 0
    guard let observer else { return loop.forgetDeadline(of: self) }
    if isWhole { return }
    // A paused response keeps what came before the end: the client gets that, too.
    let arrived = input.takeReceived()
    if !arrived.isEmpty {
      observer.attemptBody(arrived.readable)
      guard hasObserver else { return loop.forgetDeadline(of: self) }
    }
    self.observer = nil
    loop.forgetDeadline(of: self)
    let shown = hasFinalHead ? AttemptFailure.invalidBody(failure.reason) : failure
    reportEnd(saysNothing(shown) ? .unjudged : .failure)
    observer.attemptDidFail(shown)
  }

  private static func failure(_ code: UInt32) -> AttemptFailure {
    switch HTTP2ErrorCode(rawValue: code) {
    case .refusedStream: .refusedStream
    case .http11Required: .reset("upstream requires HTTP/1.1 for this request")
    case .some, nil: .reset("upstream reset the stream (\(text(code)))")
    }
  }

  private static func text(_ code: UInt32) -> String {
    HTTP2ErrorCode(rawValue: code).map { "\($0)" } ?? "error \(code)"
  }

  /// Whether a failure says nothing about the server. A timeout does count.
  private func saysNothing(_ failure: AttemptFailure) -> Bool {
    switch failure {
    case .refusedStream: true
    case .closedBeforeHead, .broken: wasKept && bytesReceived == 0
    default: false
    }
  }
}
