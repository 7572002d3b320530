import Bytes
package import HTTP
import Transport

/// The one stream of an HTTP/1 connection. It decides how a response of unknown length is framed, and whether the
/// connection takes another request.
package final class HTTP1Stream: ClientStream {
  // Not retained: the connection owns the stream, and clears this when it closes (`connectionDidClose`).
  private var connectionRef: Unmanaged<HTTP1Connection>?
  /// Retained for a call, because the connection may close during it.
  var connection: HTTP1Connection? {
    get { connectionRef?.takeUnretainedValue() }
    set { connectionRef = newValue.map { Unmanaged.passUnretained($0) } }
  }
  private let transport: ByteStream
  /// The framing of the response's body; nil before the head.
  private var framing: BodyFraming?
  private var keepsAlive = true
  private var isTunnel = false
  /// Whether `watchSending` set the current deadline.
  private var isWatchingSending = false
  private(set) var sent: UInt64 = 0
  private var mark = ProgressMark()

  override init(_ session: ClientSession) {
    self.transport = session.transport
    super.init(session)
  }

  /// Begins a request.
  func begin(_ exchange: Exchange) {
    self.exchange = exchange
    framing = nil
    keepsAlive = true
    isTunnel = false
    isWatchingSending = false
  }

  // MARK: The request

  package override var isBodyRead: Bool { connectionRef?._withUnsafeGuaranteedRef { $0.isBodyRead } ?? true }
  package override var hasClientEnded: Bool { transport.hasPeerEnd }
  package override var hasClientLeft: Bool { transport.isClosed || transport.hasPeerReset }
  package override func resumeBody() { connection?.resumeBody() }
  package override func pauseBody() {
    connection?.pauseBody()
    watchBody(nil)
  }
  package override func discardBody() {
    connection?.discardBody()
    watchBody(nil)
  }

  /// Gives the client `timeout` milliseconds to send more of its body; nil: the exchange doesn't wait for the body. A
  /// deadline of `watchSending` has priority: events of the body must not replace it.
  func watchBody(_ timeout: Int?) { if !isWatchingSending { setDeadline(in: timeout) } }

  // MARK: The response

  package override var waitingBytes: Int { transport.pendingCount }
  package override var sentBytes: UInt64 { sent }
  package override var takesTrailers: Bool { framing == .chunked }
  package override func closeAfterResponse() { keepsAlive = false }

  package override func sendInterim(_ status: UInt16) {
    guard let exchange, exchange.head.version == .http11 else { return }
    worker.scratch.removeAll()
    HeadWriter.statusLine(status, to: &worker.scratch)
    worker.scratch.append("\r\n")
    write(worker.scratch.readable)
  }

  package override func sendInterim(head: OutgoingResponseHead) {
    guard let exchange, exchange.head.version == .http11 else { return }
    worker.scratch.removeAll()
    HTTP1Encoder.interim(head, to: &worker.scratch)
    write(worker.scratch.readable)
  }

  package override func send(head: OutgoingResponseHead) {
    withExchange { exchange in borrowing(exchange.policy) { send(head, of: exchange, $0) } }
  }

  private func send(_ head: OutgoingResponseHead, of exchange: Exchange, _ policy: ResponsePolicy) {
    let framing: BodyFraming =
      switch head.body {
      case .none: .none
      case .length(let length): .length(length)
      case .stream:
        exchange.head.version == .http11 && policy.chunksBodies ? .chunked : .untilClose
      }
    if keepsAlive { keepsAlive = framing != .untilClose && mayTakeAnother(exchange, policy) }
    connectionRef?._withUnsafeGuaranteedRef { $0.didAnswer(policy) }
    head.framing = framing
    if head.status == 101 {
      head.persistence = .upgrade
    } else {
      head.persistence = keepsAlive ? .keepAlive(announced: policy.keepaliveAnnounced) : .close
    }
    self.framing = framing
    borrowing(worker) {
      $0.scratch.removeAll()
      HTTP1Encoder.response(head, to: &$0.scratch)
      write($0.scratch.readable)
    }
  }

  /// Whether the connection may take another request: the policy allows it, and this request is completely read.
  private func mayTakeAnother(_ exchange: Exchange, _ policy: ResponsePolicy) -> Bool {
    guard exchange.head.keepsAlive, isBodyRead, policy.keepaliveTimeout > 0, !session.isLeaving else { return false }
    return !policy.isUsedUp(requests: session.requests, age: session.age)
  }

  package override func send(body bytes: UnsafeRawBufferPointer) {
    guard framing == .chunked else { return write(bytes) }
    // The loop's cork collects size line, data and line end, so three writes don't make three TLS records.
    worker.scratch.removeAll()
    ChunkedWriter.append(size: bytes.count, to: &worker.scratch)
    write(worker.scratch.readable)
    write(bytes)
    worker.scratch.removeAll()
    ChunkedWriter.endChunk(to: &worker.scratch)
    write(worker.scratch.readable)
  }

  package override func end(_ trailers: Trailers?) {
    guard framing == .chunked else { return }
    worker.scratch.removeAll()
    ChunkedWriter.lastChunk(trailers, to: &worker.scratch)
    write(worker.scratch.readable)
  }

  @inline(never)
  private func write(_ bytes: UnsafeRawBufferPointer) {
    sent &+= UInt64(bytes.count)
    transport.write(bytes)
  }

  private var worker: Worker { session.worker }

  package override func becomeTunnel() {
    isTunnel = true
    keepsAlive = false
    watchBody(nil)
    connection?.becomeTunnel()
  }

  package override func watchSending(_ timeout: Int) {
    guard !transport.isClosed else { return }
    mark.set(transport.wireBytesOut)
    isWatchingSending = true
    setDeadline(in: timeout)
  }

  /// Called when the client has taken all waiting bytes. `bodyTimeout`: nil if the exchange doesn't wait for the body.
  func didDrain(bodyTimeout: Int?) {
    isWatchingSending = false
    setDeadline(in: bodyTimeout)
  }

  package override func deadlinePassed() {
    guard let exchange else { return }
    // The client is slow but takes bytes: `send_timeout` applies between two writes, not to the whole response.
    if transport.pendingCount > 0, mark.isPassed(at: transport.wireBytesOut) {
      return watchSending(exchange.policy.sendTimeout)
    }
    // What waits, if anything does, is not for the client to take: a rate or the compression keeps it back.
    if isWatchingSending, transport.pendingCount == 0 {
      if exchange.waitingBytes > 0 { return watchSending(exchange.policy.sendTimeout) }
      return didDrain(bodyTimeout: isBodyRead ? nil : exchange.bodyTimeout)
    }
    exchange.deadlinePassed()
  }

  // MARK: Ends

  package override func release() {
    exchange = nil
    loop.forgetDeadline(of: self)
    connection?.exchangeDidEnd(keepsAlive: keepsAlive)
  }

  package override func cut(_ reason: EndReason) {
    exchange = nil
    loop.forgetDeadline(of: self)
    connection?.abort(closing(reason), drains: reason == .upstreamBroke && !isTunnel)
  }

  /// The way to close the connection after an incomplete response.
  private func closing(_ reason: EndReason) -> ByteStream.Closing {
    if isTunnel { return .abrupt }
    switch framing {
    // With a FIN, the client would take the incomplete body for a complete one.
    case .untilClose: return .reset
    case .some: return .abrupt
    case nil: return .orderly
    }
  }

  /// Forgets the closed connection. Calls of an exchange that continues without its client then have no effect.
  func connectionDidClose() {
    connection = nil
    loop.forgetDeadline(of: self)
  }
}
