import Bytes
package import HTTP
import Transport

/// One stream of an HTTP/2 connection. Its receiving half keeps what has arrived of a paused body, and its sending half what
/// the client's window doesn't take yet of the response.
package final class HTTP2Stream: ClientStream {
  // Not retained: the connection owns its streams, and clears this when it closes (`connectionDidClose`).
  unowned(unsafe) private(set) var connection: HTTP2Connection?
  private(set) var id: Int32 = 0
  /// The place in `HTTP2Connection.open`.
  var place = 0
  private var input = HTTP2ReceivingHalf(isPaused: true)
  private var output: HTTP2SendingHalf
  /// Whether the response ends with a DATA frame, which needs a window as the bytes before it do.
  private var endsWithData = false
  private var isTunnel = false
  /// Whether the exchange waits for the pending bytes to go.
  private(set) var isWatchingSending = false
  private(set) var sent: UInt64 = 0
  private var sendTimeout = 60_000
  /// Whether the response has gone while the client still sends its body.
  private var isLingering = false
  /// Milliseconds that such a client has to end its body (`lingering_timeout`); 0 if it has none (`lingering_close off`).
  private var lingeringTime = 0
  /// Bytes that the request's content-length has announced and that have not come; 0 if it has none.
  private var missingBytes: UInt64 = 0
  /// Whether the client has ended its side without them.
  private var hasEndedShort = false

  /// Counts of `limit_conn`, until the client has the response: a window may keep it back for long.
  private var held: [AnyObject] = []

  override init(_ session: ClientSession) {
    output = HTTP2SendingHalf(in: session.worker.responses)
    super.init(session)
  }

  /// Begins a request, whose head is still to come.
  func begin(_ connection: HTTP2Connection, _ id: Int32) {
    self.connection = connection
    self.id = id
    input.reset()
    output.reset()
    endsWithData = false
    isTunnel = false
    isWatchingSending = false
    isLingering = false
    missingBytes = 0
    hasEndedShort = false
  }

  private var isClosed: Bool { output.isClosed }
  /// Whether neither an exchange nor the connection uses the stream any more.
  var isFree: Bool { isClosed && exchange == nil }

  // MARK: The request

  /// Whether somebody takes what the client still sends on this stream.
  var takesInput: Bool { input.takesInput }
  package override var isBodyRead: Bool { input.isRead }
  package override var hasClientLeft: Bool {
    isClosed || connection?.hasClientLeft ?? true
  }

  /// Bytes of the request's body have arrived.
  func inputDidArrive(_ bytes: UnsafeRawBufferPointer) {
    // RFC 9113 §5.1, of which libnghttp2 knows nothing here.
    if hasEndedShort, input.hasEnded { connection?.reset(self, .streamClosed) }
    missingBytes -= min(missingBytes, UInt64(bytes.count))
    if !bytes.isEmpty, input.arrive(bytes) { deliver(bytes) }
  }

  private func deliver(_ bytes: UnsafeRawBufferPointer) {
    guard let exchange else { return }
    if isTunnel { exchange.tunnelBytes(bytes) } else { exchange.requestBody(bytes) }
    connection?.credit(id, bytes.count)
    if input.isFlowing { watchBody(isTunnel ? nil : exchange.bodyTimeout) }
  }

  /// Takes how long the request says that its body is.
  func expect(_ framing: BodyFraming) { if case .length(let length) = framing { missingBytes = length } }

  /// A frame of `length` bytes is to end the client's side of the stream. Returns true if bytes are missing then that nobody
  /// takes, and the response is on its way: the stream error that this is (RFC 9113 §8.1.1) follows the response.
  ///
  /// curl (7.88) stops its body where it is when the head of an error comes.
  func takesShortEnd(length: Int) -> Bool {
    guard missingBytes > UInt64(length), !input.takesInput, !input.hasEnded, !isLingering, !isClosed else {
      return false
    }
    hasEndedShort = true
    return true
  }

  /// The client has ended its side of the stream.
  func inputDidEnd(_ trailers: Trailers?) {
    let isDue = input.arriveEnd(trailers)
    // curl (7.88) waits for a frame although both sides of its stream have ended, if the response ended first.
    if isLingering, let connection {
      connection.frames.wakePeer()
      connection.hasOutput()
    }
    if isDue { deliverEnd(trailers) }
  }

  private func deliverEnd(_ trailers: Trailers?) {
    input.close()
    watchBody(nil)
    if isTunnel { exchange?.tunnelDidEnd() } else { exchange?.requestBodyDidEnd(trailers: trailers) }
  }

  /// A block of trailers was invalid.
  func inputIsInvalid(_ error: BodyError) { if input.arriveFault(error) { refuseInput(error) } }

  private func refuseInput(_ error: BodyError) {
    input.close()
    exchange?.requestBodyIsInvalid(error)
  }

  package override func resumeBody() {
    guard let arrived = input.resume() else { return }
    // The exchange may pause, or end, within the call.
    if !arrived.isEmpty { deliver(arrived.readable) }
    guard input.isFlowing else { return }
    switch input.settled {
    case .invalid(let error): refuseInput(error)
    case .whole(let trailers): deliverEnd(trailers)
    case nil: if let exchange, !isTunnel { watchBody(exchange.bodyTimeout) }
    }
  }

  package override func pauseBody() { if input.pause() { watchBody(nil) } }

  package override func discardBody() {
    giveUpInput()
    input.dropReceived()
    watchBody(nil)
  }

  private func giveUpInput() {
    if takesInput { connection?.frames.didGiveUpInput() }
    input.close()
  }

  /// Gives the client `timeout` milliseconds to send more of its body. A deadline of `watchSending` has priority.
  private func watchBody(_ timeout: Int?) { if !isWatchingSending { setDeadline(in: timeout) } }

  // MARK: The response

  package override var waitingBytes: Int { output.count }
  package override var sentBytes: UInt64 { sent }
  package override var takesTrailers: Bool { true }

  package override func sendInterim(_ status: UInt16) {
    guard let connection else { return }
    HTTP2Encoder.interim(status, connection.frames, id)
    connection.hasOutput()
  }

  package override func sendInterim(head: OutgoingResponseHead) {
    guard let connection else { return }
    HTTP2Encoder.interim(head, connection.frames, id)
    connection.hasOutput()
  }

  package override func send(head: OutgoingResponseHead) {
    guard let connection, let exchange, output.isWaiting else { return }
    let policy = exchange.policy
    sendTimeout = policy.sendTimeout
    lingeringTime = policy.lingers ? policy.lingeringTimeout : 0
    connection.didAnswer(policy)
    head.persistence = .keepAlive(announced: nil)
    if exchange.head.isExtendedConnect, head.status != 101, head.status < 300 {
      // A client would take any other 2xx for the beginning of its WebSocket (RFC 8441 §5).
      head.status = 502
    }
    let hasBody =
      switch head.body {
      case .none: head.status == 101
      case .length(0): head.status == 101 || head.expectsTrailers
      case .length, .stream: true
      }
    output.begin(hasBody: hasBody)
    let pointer = Unmanaged.passUnretained(self).toOpaque()
    let bytes = HTTP2Encoder.respond(head, connection.frames, id, pointer, hasBody: hasBody)
    if let bytes { sent &+= UInt64(bytes) } else { connection.frames.reset(id, .internalError) }
    connection.hasOutput()
  }

  package override func send(body bytes: UnsafeRawBufferPointer) {
    guard let connection, output.append(bytes) else { return }
    sent &+= UInt64(bytes.count)
    announce(connection)
  }

  package override func end(_ trailers: Trailers?) {
    guard let connection, output.end(trailers) else { return }
    endsWithData = true
    announce(connection)
  }

  private func announce(_ connection: HTTP2Connection) {
    if output.mustResume() { connection.frames.resume(id) }
    connection.hasOutput()
  }

  package override func becomeTunnel() {
    isTunnel = true
    session.tunnels += 1
    connection?.noteState()
    watchBody(nil)
  }

  private func endTunnel() {
    guard isTunnel else { return }
    isTunnel = false
    session.tunnels -= 1
  }

  package override func watchSending(_ timeout: Int) {
    guard connection != nil else { return }
    output.setMark()
    isWatchingSending = true
    setDeadline(in: timeout)
  }

  package override func deadlinePassed() {
    // The client is slow but takes bytes: `send_timeout` applies between two writes, not to the whole response.
    if output.isSlowButMoving { return watchSending(sendTimeout) }
    guard let exchange else {
      if isLingering { connection?.reset(self, .noError) } else { connection?.didStall(self) }
      return
    }
    // What waits, if anything does, is not for the client to take: a rate or the compression keeps it back.
    if isWatchingSending, output.isEmpty {
      if exchange.waitingBytes > 0 { return watchSending(sendTimeout) }
      isWatchingSending = false
      return watchBody(isBodyRead ? nil : exchange.bodyTimeout)
    }
    if !output.isEmpty { connection?.note(.stalledStreams) }
    exchange.deadlinePassed()
  }

  // MARK: Calls of the connection

  /// The response has gone, whole. A client that still sends may stop (RFC 9113 §8.1). It is told so after a while only:
  /// curl (7.88) loses a response whose stream is reset while it sends, also if a busy machine has made it pause between
  /// its head and its body. Until then, its bytes are discarded, and the window is not opened again.
  func responseDidGo() {
    held = []
    if hasEndedShort { connection?.reset(self, .protocolError) }
    guard !input.hasEnded else { return }
    guard exchange == nil, lingeringTime > 0 else {
      connection?.reset(self, .noError)
      return
    }
    isWatchingSending = false
    isLingering = true
    setDeadline(in: lingeringTime)
  }

  /// What the stream has ready, at most `room` bytes.
  func ready(room: Int) -> HTTP2Output { output.ready(room: room) }
  var pendingTrailers: Trailers? { output.trailers }

  /// Writes the first `count` pending bytes. Returns whether the exchange waited for this to be the last of them.
  func write(_ count: Int, to transport: ByteStream) -> Bool {
    transport.write(output.first(count))
    output.didTake(count)
    return output.isEmpty && isWatchingSending
  }

  /// The client has taken all pending bytes, for which the exchange waited.
  func didDrain() {
    guard isWatchingSending, output.isEmpty else { return }
    isWatchingSending = false
    if output.isBroken {
      setDeadline(in: nil)
      connection?.reset(self, .internalError)
      return
    }
    guard let exchange else { return setDeadline(in: nil) }
    if input.isFlowing, !isTunnel { setDeadline(in: exchange.bodyTimeout) } else { setDeadline(in: nil) }
    exchange.streamDidDrain()
  }

  /// libnghttp2 has closed the stream.
  func didClose() {
    output.close()
    held = []
    input.dropReceived()
    if exchange == nil { endDeadline() }
  }

  func connectionDidClose() {
    didClose()
    connection = nil
    endDeadline()
  }

  /// Takes the deadline back. The loop keeps the stream's place for the next request, since each new place leaves an entry
  /// until its time has come: at 20 000 requests in a second, more than a million of them.
  private func endDeadline() {
    if connection == nil { loop.forgetDeadline(of: self) } else { setDeadline(in: nil) }
  }

  /// The stream serves no more requests.
  func retire() { loop.forgetDeadline(of: self) }

  // MARK: Ends

  package override func hold(_ object: AnyObject) { if !isClosed { held.append(object) } }

  package override func release() {
    exchange = nil
    endTunnel()
    isWatchingSending = false
    if output.isOpen { end(nil) }
    if !input.hasEnded { discardBody() }
    if endsWithData, !isClosed { watchSending(sendTimeout) } else { endDeadline() }
    connection?.exchangeDidEnd(self)
  }

  package override func cut(_ reason: EndReason) {
    exchange = nil
    endTunnel()
    giveUpInput()
    if reason == .upstreamBroke, output.breakOff() {
      // What came goes first. The last of it leads to `didDrain`.
      watchSending(sendTimeout)
    } else {
      isWatchingSending = false
      endDeadline()
      output.dropWaiting()
      if !isClosed { connection?.reset(self, reason == .upstreamBroke ? .internalError : .cancel) }
    }
    connection?.exchangeDidEnd(self)
  }
}
