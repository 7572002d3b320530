import Bytes
import HTTP
import Transport

/// One attempt's request and response, as a stream of HTTP/2.
///
///     request:   pending bytes ──► window of the upstream ──► ended
///     response:  head ──► body (paused ◄──► flowing) ──► ended
final class HTTP2UpstreamStream: UpstreamStream {
  private enum Request {
    case waiting, sending
    case ended(Trailers?)
  }

  private enum Response {
    case awaitingHead, readingBody
    /// The upstream has ended its side. The observer hears of it when the body isn't paused.
    case ended(Trailers?)
    case over
  }

  private let http2: HTTP2UpstreamSession
  private let wasKept: Bool
  /// 0 until the request's head was sent.
  private var id: Int32 = 0
  private(set) var method = HTTP.Method.get
  private var request = Request.waiting
  private var pending = ByteBuffer()
  /// Whether libnghttp2 waits for `resume`.
  private var isDeferred = false
  private var response = Response.awaitingHead
  private var received = ByteBuffer()
  private var isPaused = false, asksAgain = false
  private var interimHeads = 0
  /// Whether the request's head has gone to the upstream. libnghttp2 keeps it back while the upstream allows no more streams.
  var isOnWire = false
  /// Whether a RST_STREAM of ours ends the stream: libnghttp2's, which found a fault of the upstream, where an observer is left.
  var isResetByUs = false
  /// Bytes of the request that the upstream's window has taken, and how many when the deadline was set.
  private var taken: UInt64 = 0, mark = ProgressMark()

  init(_ session: HTTP2UpstreamSession, isOnKeptSession: Bool) {
    http2 = session
    wasKept = isOnKeptSession
    super.init(session)
  }

  override var isOnKeptSession: Bool { wasKept }

  override var isOpen: Bool {
    if case .over = response { return false }
    return hasObserver && id > 0
  }

  /// Whether somebody takes what the upstream still sends on this stream.
  var takesInput: Bool {
    switch response {
    case .awaitingHead, .readingBody: hasObserver
    case .ended, .over: false
    }
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
    request = hasBody ? .sending : .ended(nil)
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
    guard case .sending = request else { return }
    pending.append(bytes)
    bytesSent &+= UInt64(bytes.count)
    announce()
    watchDeadline()
  }

  override func requestDidEnd(_ trailers: Trailers?) {
    if case .sending = request {
      request = .ended(trailers)
      announce()
    }
    watchDeadline()
  }

  private func announce() {
    if isDeferred {
      isDeferred = false
      http2.frames.resume(id)
    }
    http2.hasOutput()
  }

  override var waitingBytes: Int { pending.count }

  /// What the stream has ready, at most `room` bytes.
  func ready(room: Int) -> HTTP2Output {
    let count = min(pending.count, room)
    switch request {
    case .sending where count > 0: return .bytes(count)
    case .ended(let trailers):
      return count == pending.count ? .last(count, hasTrailers: trailers != nil) : .bytes(count)
    case .sending, .waiting:
      isDeferred = true
      return .none
    }
  }

  var pendingTrailers: Trailers? {
    if case .ended(let trailers) = request { trailers } else { nil }
  }

  /// Writes the first `count` pending bytes. Returns whether these were the last ones and more may come.
  func write(_ count: Int, to transport: ByteStream) -> Bool {
    let bytes = pending.readable
    transport.write(UnsafeRawBufferPointer(rebasing: bytes[..<min(count, bytes.count)]))
    pending.consume(min(count, bytes.count))
    taken &+= UInt64(count)
    return count > 0 && pending.isEmpty
  }

  /// The upstream has taken all pending bytes.
  func didDrain() {
    guard hasObserver, pending.isEmpty else { return }
    watchDeadline()
    if case .sending = request { withObserver { $0.attemptDidDrain() } }
  }

  // MARK: The response

  override func askAgain() { asksAgain = true }

  override func pause() {
    isPaused = true
    setDeadline(in: nil)
  }

  override func resume() {
    guard isPaused else { return }
    isPaused = false
    if !received.isEmpty {
      // The observer may pause, or give up, within the call.
      var arrived = ByteBuffer()
      arrived.swap(with: &received)
      deliver(arrived.readable)
    }
    guard !isPaused, hasObserver else { return }
    watchDeadline()
    if case .ended(let trailers) = response { deliverEnd(trailers) }
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
    if endsStream { response = .ended(nil) }
    guard observer.attemptHead(head), hasObserver, endsStream, !isPaused else { return }
    deliverEnd(nil)
  }

  /// Bytes of the response's body have arrived.
  func inputDidArrive(_ bytes: UnsafeRawBufferPointer) {
    bytesReceived &+= UInt64(bytes.count)
    guard hasObserver else { return http2.frames.credit(id, bytes.count) }
    if isPaused { return received.append(bytes) }
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
    guard case .readingBody = response else { return }
    response = .ended(trailers)
    if !isPaused { deliverEnd(trailers) }
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
    if case .sending = request, id > 0 {
      http2.frames.reset(id, .cancel)
      http2.hasOutput()
    }
  }

  // MARK: Deadlines

  private func watchDeadline() {
    guard !isPaused, hasObserver else { return }
    mark.set(taken)
    if !pending.isEmpty {
      setDeadline(in: timeouts.send)
    } else if case .ended = request {
      setDeadline(in: timeouts.read)
    } else {
      setDeadline(in: nil)
    }
  }

  override func deadlinePassed() {
    // The upstream is slow but takes bytes: `proxy_send_timeout` applies between two writes.
    if !pending.isEmpty, mark.isPassed(at: taken) { return watchDeadline() }
    if !pending.isEmpty { return fail(.sendTimeout) }
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
    received.release()
    pending.removeAll()
    if id > 0 {
      http2.frames.reset(id, .cancel)
      http2.hasOutput()
    } else {
      http2.remove(self)
    }
    reportEnd(result)
  }

  /// libnghttp2 has closed the stream, for this reason.
  func didClose(code: UInt32) {
    id = 0
    // A response that came whole waits for the client.
    if case .ended = response { return }
    if case .refusedStream? = HTTP2ErrorCode(rawValue: code) { http2.hasRefused = true }
    guard hasObserver else { return loop.forgetDeadline(of: self) }
    sessionDidEnd(
      isResetByUs ? .invalidStream("upstream sent an invalid response (\(Self.text(code)))") : Self.failure(code))
  }

  /// The stream ended before its response: by itself, or with its session.
  func sessionDidEnd(_ failure: AttemptFailure) {
    id = 0
    guard let observer else { return loop.forgetDeadline(of: self) }
    if case .ended = response { return }
    // A paused response keeps what came before the end: the client gets that, too.
    if !received.isEmpty {
      var arrived = ByteBuffer()
      arrived.swap(with: &received)
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
