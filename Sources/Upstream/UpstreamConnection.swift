import Bytes
public import HTTP
public import TLS
public import Transport

/// One transport to one server of a group; serves one attempt at a time.
public final class UpstreamConnection: StreamOwner {
  enum Phase: Equatable {
    case opening, idle, awaitingHead, readingBody, tunnel, closed
  }

  /// What the deadline is for.
  private enum Awaited {
    /// The client feeds the request; it has a deadline of its own.
    case nothing
    case sending, answer
  }

  public let stream: ByteStream
  public let server: Int
  /// Which policy judged it; a kept connection serves no other.
  let trust: UpstreamTrust
  /// How its upstream was judged, once it is open.
  public private(set) var trustOutcome = TrustOutcome.none
  public private(set) var requestsServed = 0
  public let openedAt: UInt64
  /// Since when it waits for a request, while it is kept.
  var idleSince: UInt64 = 0
  private let head = ResponseHead()
  /// The final response's head; nil until this attempt has it: another client's answer may still be in the object.
  public var finalHead: ResponseHead? { hasFinalHead ? head : nil }
  private var hasFinalHead = false
  private let group: UpstreamGroup
  var observer: AttemptObserver?
  private var timeouts = UpstreamTimeouts()
  private(set) var phase = Phase.opening
  private var input = ByteBuffer(), parser = HeadParser()
  var decoder = BodyDecoder(.none)
  private var limits = HeadLimits()
  private var method = HTTP.Method.get
  private var isPaused = false, asksAgain = false
  /// It has been through a handshake that makes it the trust's user's (NTLM).
  package var isAuthenticated = false
  /// Its server may take whoever comes next over it for this client: it is not kept.
  public var isOfOneClient = false
  private var requestEnded = false, awaited = Awaited.nothing
  /// What had gone out when the deadline was set.
  private var sentAtDeadline: UInt64 = 0
  /// Plain bytes of this attempt; none received means that the server may not have seen the request.
  public private(set) var bytesReceived: UInt64 = 0, bytesSent: UInt64 = 0

  /// Each renews the time to wait for the answer: without a bound a server could do so for ever.
  private static let interimLimit = 100
  private var interimHeads = 0

  private static let readSize = 16 * 1024, pumpLimit = 1 << 20

  init(stream: ByteStream, server: Int, trust: UpstreamTrust, group: UpstreamGroup, loop: EventLoop) {
    self.stream = stream
    self.server = server
    self.trust = trust
    self.group = group
    self.openedAt = loop.now
    super.init()
    stream.owner = self
  }

  /// It has served an attempt before this one.
  public var isKept: Bool { requestsServed > 1 }

  // MARK: An attempt

  /// Begins an attempt: at once on a kept connection, else when it opens.
  func begin(_ observer: AttemptObserver, _ settings: AttemptSettings) {
    self.observer = observer
    self.timeouts = settings.timeouts
    self.limits = settings.headLimits
    asksAgain = false
    isPaused = false
    beginRequest()
    observer.attemptDidBegin(self)
    if phase == .idle {
      startAwaiting()
      observer.attemptDidOpen(self)
    } else {
      stream.setDeadline(in: timeouts.connect)
    }
  }

  private func beginRequest() {
    requestsServed += 1
    bytesReceived = 0
    bytesSent = 0
    interimHeads = 0
    hasFinalHead = false
    requestEnded = false
  }

  private func startAwaiting() {
    phase = .awaitingHead
    parser = HeadParser()
    watchDeadline()
  }

  /// What framing the response has depends on it.
  public func expect(method: HTTP.Method) { self.method = method }

  public func send(_ bytes: UnsafeRawBufferPointer) {
    bytesSent &+= UInt64(bytes.count)
    stream.write(bytes)
    renewDeadline()
  }

  /// The response that comes is no answer: when it is over, the observer asks again over this connection.
  public func askAgain() { asksAgain = true }

  /// Bytes that the server has not taken yet.
  public var pendingCount: Int { stream.pendingCount }

  /// The request is out; the time to wait for the answer begins.
  public func requestDidEnd() {
    requestEnded = true
    watchDeadline()
  }

  public func pause() {
    isPaused = true
    stream.setDeadline(in: nil)
  }

  public func resume() {
    guard isPaused else { return }
    isPaused = false
    watchDeadline()
    pump()
  }

  /// Leaves the server: the client is gone, or its answer is not wanted (`isFailure`: it counts against it).
  public func abandon(isFailure: Bool = false) {
    guard observer != nil else { return }
    observer = nil
    group.attemptDidEnd(self, isFailure ? .failure : .unjudged)
    close()
  }

  /// From the 101 on bytes go both ways as they are.
  public func becomeTunnel() {
    phase = .tunnel
    watchDeadline()
  }

  private func watchDeadline() {
    guard !isPaused, phase != .idle, phase != .closed else { return }
    sentAtDeadline = stream.wireBytesOut
    if stream.pendingCount > 0 {
      awaited = .sending
      stream.setDeadline(in: timeouts.send)
    } else if requestEnded || phase == .tunnel {
      awaited = .answer
      stream.setDeadline(in: timeouts.read)
    } else {
      awaited = .nothing
      stream.setDeadline(in: nil)
    }
  }

  /// After some progress; more bytes for a server that takes none are not one.
  private func renewDeadline() {
    if awaited != .sending || stream.wireBytesOut != sentAtDeadline { watchDeadline() }
  }

  // MARK: Stream events

  public override func streamDidOpen() {
    guard phase == .opening else { return }
    guard let observer else { return close() }
    trustOutcome = (stream as? TLSStream)?.trustResult?.outcome ?? .none
    if hasUnsolicitedBytes() { return fail(.unsolicitedBytes) }
    startAwaiting()
    observer.attemptDidOpen(self)
  }

  public override func streamIsReadable() {
    switch phase {
    // A FIN, an alert or stray bytes: whatever it is, the next request must not meet it.
    case .idle: if hasUnsolicitedBytes() || stream.hasPeerEnd { drop() }
    case .awaitingHead, .readingBody, .tunnel: pump()
    case .opening, .closed: break
    }
  }

  public override func streamAgain() {
    streamIsReadable()
    if phase == .awaitingHead, !requestEnded, stream.pendingCount == 0 { observer?.attemptDidDrain() }
  }

  /// Calls `attemptDidDrain` after this batch: a long request lets others have their turn.
  public func continueLater() { stream.loop.again(stream) }

  public override func streamDidDrain() {
    watchDeadline()
    observer?.attemptDidDrain()
  }

  public override func streamDidFail(_ failure: StreamFailure) {
    if phase == .idle { return drop() }
    switch (phase, failure) {
    case (.opening, .socket(let error)): fail(.connect(error))
    case (.opening, .truncated): fail(.tls("peer closed connection"))
    case (.opening, .tls(let reason)): fail(.tls(reason))
    default: inputDidEnd(inGoodOrder: false)
    }
  }

  public override func streamDeadlinePassed() {
    switch phase {
    case .opening: fail(.connectTimeout)
    case .idle: drop()
    default:
      // Slow, but taking: the time is between two writes, not for all of the request.
      if awaited == .sending, stream.wireBytesOut != sentAtDeadline { return watchDeadline() }
      if stream.pendingCount > 0 { return fail(.sendTimeout) }
      fail(phase == .readingBody ? .invalidBody("upstream timed out (110: Connection timed out)") : .readTimeout)
    }
  }

  private func hasUnsolicitedBytes() -> Bool {
    input.reserve(Self.readSize)
    let outcome = stream.read(into: input.writable)
    input.release()
    switch outcome {
    case .wouldBlock: return false
    case .bytes, .end, .failed: return true
    }
  }

  // MARK: Reading

  private func pump() {
    var taken = 0
    while !isPaused, phase != .closed, phase != .idle {
      guard consumeInput() else { break }
      guard taken < Self.pumpLimit else {
        stream.loop.again(stream)
        break
      }
      guard stream.mayHaveInput else {
        if input.isEmpty { input.release() }
        if taken > 0 { renewDeadline() }
        break
      }
      input.reserve(Self.readSize)
      switch stream.read(into: input.writable) {
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
    if taken > 0 { observer?.attemptDidPump() }
  }

  /// Works off what was read; false when there is nothing more to read for now.
  private func consumeInput() -> Bool {
    while !input.isEmpty {
      switch phase {
      case .awaitingHead:
        // After a head a body may follow that needs more: stopping here would lose the edge.
        guard consumeHead() else { return phase == .awaitingHead || phase == .readingBody }
      case .readingBody: guard consumeBody() else { return phase == .readingBody }
      case .tunnel:
        observer?.tunnelBytes(input.readable)
        input.removeAll()
      case .opening, .idle, .closed: return false
      }
      if isPaused { return false }
    }
    return phase != .closed && phase != .idle
  }

  /// True when a head was taken and work can go on.
  private func consumeHead() -> Bool {
    switch parser.response(input.readable, limits: limits, requestMethod: method, into: head) {
    case .incomplete: return false
    case .failed(let error):
      fail(.invalidHead(error))
      return false
    case .complete(let consumed):
      input.consume(consumed)
      parser = HeadParser()
      guard let observer else { return false }
      if head.isInterim {
        interimHeads += 1
        guard interimHeads <= Self.interimLimit else {
          fail(.invalidBody("upstream sent more than \(Self.interimLimit) interim responses"))
          return false
        }
        return observer.attemptHead(head)
      }
      hasFinalHead = true
      phase = .readingBody
      decoder = BodyDecoder(head.framing)
      guard observer.attemptHead(head), phase == .readingBody else { return phase == .tunnel }
      // A body of no bytes has no input that would end it.
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
        observer?.attemptBody(bytes)
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

  func responseDidEnd() {
    // What follows a whole response was asked for by nobody.
    let isPoisoned = !input.isEmpty
    let reusable =
      requestEnded && !isOfOneClient && stream.pendingCount == 0 && head.persists && head.framing != .untilClose
      && !isPoisoned && !stream.hasPeerEnd
    if asksAgain { return endForAnother(isReusable: reusable) }
    let observer = observer
    self.observer = nil
    input.release()
    let trailers = decoder.trailers
    group.attemptDidEnd(self, .success)
    if reusable && !(stream.mayHaveInput && hasUnsolicitedBytes()) {
      phase = .idle
      group.keep(self)
    } else {
      close()
    }
    observer?.attemptDidEnd(trailers: trailers)
  }

  private func endForAnother(isReusable: Bool) {
    asksAgain = false
    input.release()
    if isReusable && !(stream.mayHaveInput && hasUnsolicitedBytes()) {
      beginRequest()
      startAwaiting()
      observer?.attemptMayAskAgain(self)
    } else {
      let observer = observer
      self.observer = nil
      group.attemptDidEnd(self, .success)
      close()
      observer?.attemptMayAskAgain(nil)
    }
  }

  // MARK: Ends

  func fail(_ failure: AttemptFailure) {
    let observer = observer
    self.observer = nil
    if observer != nil { group.attemptDidEnd(self, saysNothing(failure) ? .unjudged : .failure) }
    close()
    observer?.attemptDidFail(failure)
  }

  /// An idle connection that is of no more use.
  private func drop() {
    group.forget(self)
    close()
  }

  func close() {
    guard phase != .closed else { return }
    phase = .closed
    input.release()
    group.connectionDidClose()
    stream.close()
  }
}
