import Bytes
import HTTP
package import Transport

/// HTTP/1 towards a client: reads heads, begins an exchange for each on the connection's one stream, delivers the body,
/// and keeps the order of pipelined requests.
///
///     idle ──► (head) exchanging ──► idle …            keep-alive, pipelining
///                  ├──► rejoining ──► idle              a reload came while the response, which keeps the connection, went out
///                  ├──► tunnelling                      after an upstream's 101
///                  └──► ending ──► lingering ──► closed the response goes out, late bytes are thrown away
package final class HTTP1Connection: ClientConnection {
  package enum Phase {
    case idle, exchanging, rejoining, tunnelling, ending, lingering, closed
  }

  let transport: ByteStream
  private let worker: Worker
  let stream: HTTP1Stream
  private(set) var phase = Phase.idle {
    didSet { didBecome() }
  }
  /// The time since which the connection waits for a request.
  private var idleStart: UInt64
  /// The exchange whose head is being read.
  private var reading: Exchange? {
    didSet {
      worker.traffic.didChangeHead(had: oldValue != nil, has: reading != nil)
      didBecome()
    }
  }
  var input = ByteBuffer(), decoder = BodyDecoder(.none), isBodyPaused = true
  private var parser = HeadParser(), isPumping = false, isLingering = false
  /// How the connection closes once the client has taken the waiting bytes.
  private var lastClosing = ByteStream.Closing.orderly
  /// That of the last response.
  @exclusivity(unchecked) private var policy = ResponsePolicy.initial
  private var mark = ProgressMark()

  private static let readSize = 16 * 1024, pumpLimit = 1 << 20
  /// While more bytes than this wait for a client, the connection doesn't read the client's next pipelined request.
  private static let pipelineWatermark = 64 * 1024

  /// Takes over a transport whose handshake is complete, or far enough for early data.
  init(_ session: ClientSession, _ transport: ByteStream) {
    self.transport = transport
    self.worker = session.worker
    self.stream = HTTP1Stream(session)
    self.idleStart = session.facts.openedAt
    super.init()
    stream.connection = self
  }

  private var session: ClientSession { stream.session }
  /// Counts the session anew.
  @inline(__always)
  private func didBecome() {
    borrowing(stream.session) { $0.become(Self.state(phase, isReading: reading != nil)) }
  }
  /// Whether no exchange is in progress.
  package override var idleSince: UInt64 { idleStart }
  package override var isIdle: Bool { phase == .idle }
  package override var transactions: [Transaction] { stream.exchange.map { [$0] } ?? [] }
  /// Whether no exchange is in progress and no byte of the next request has arrived.
  package override var hasNoRequest: Bool { phase == .idle && input.isEmpty && reading == nil }

  // MARK: Transport events

  package override func streamIsReadable() {
    switch phase {
    case .idle, .exchanging, .lingering, .tunnelling: pump()
    // The handshake of a client that sent early data is over.
    case .ending: if transport.pendingCount == 0 { finishEnding() }
    case .rejoining, .closed: break
    }
  }

  package override var streamWillWrite: Bool { phase == .exchanging }

  package override func streamAgain() {
    if phase == .rejoining { return rejoin() }
    streamIsReadable()
  }

  package override func streamDidDrain() {
    switch phase {
    case .ending: finishEnding()
    case .exchanging, .tunnelling:
      guard let exchange = stream.exchange else { return }
      stream.didDrain(bodyTimeout: isBodyPaused || phase == .tunnelling ? nil : exchange.bodyTimeout)
      exchange.streamDidDrain()
    case .idle:
      if session.requests > 0 && reading == nil { transport.setDeadline(in: idleTimeout) }
      pump()
    case .rejoining, .lingering, .closed: break
    }
  }

  package override func streamDidFail(_ failure: StreamFailure) {
    if let exchange = stream.exchange {
      exchange.clientDidLeave()
      if phase == .closed { return }
    }
    close()
  }

  package override func streamDeadlinePassed() {
    // The client is slow but takes bytes: `send_timeout` applies between two writes, not to the whole response.
    if transport.pendingCount > 0, mark.isPassed(at: transport.wireBytesOut), phase != .lingering {
      return watchSending(policy.sendTimeout)
    }
    switch phase {
    case .idle: idleDeadlinePassed()
    case .ending, .lingering:
      // Waiting bytes are lost, so the connection must not end as if the response were complete.
      close(session.firstServer.policy.resetsTimedOut || transport.pendingCount > 0 ? .reset : .abrupt)
    // An exchange has the stream's deadline.
    case .exchanging, .rejoining, .tunnelling, .closed: break
    }
  }

  // MARK: Reading

  /// Takes bytes that were read to see which protocol the client speaks.
  func take(_ bytes: UnsafeRawBufferPointer) {
    input.append(bytes)
    pump()
  }

  /// Processes input until there is none, or until the connection must wait for an exchange.
  func pump() {
    guard !isPumping else { return }
    isPumping = true
    readOn()
    isPumping = false
    if transport.hasPeerEnd { clientDidEnd() }
  }

  private func readOn() {
    var taken = 0
    while phase != .closed {
      guard consumeInput() else { break }
      guard taken < Self.pumpLimit else {
        transport.loop.again(transport)
        break
      }
      // The last read emptied the socket; the next edge announces new input.
      guard transport.mayHaveInput else {
        if input.isEmpty { input.release() }
        break
      }
      input.reserve(Self.readSize)
      switch transport.read(into: input.writable) {
      case .bytes(let count):
        input.didWrite(count)
        taken += count
        continue
      case .wouldBlock:
        if input.isEmpty { input.release() }
      case .end, .failed: inputDidEnd()
      }
      break
    }
  }

  /// Returns false if the connection must not read for now.
  private func consumeInput() -> Bool {
    while true {
      switch phase {
      case .idle:
        guard transport.pendingCount < Self.pipelineWatermark else { return false }
        if input.isEmpty { return true }
        guard takeHead() else { return phase == .idle }
      case .exchanging:
        guard !isBodyPaused, let exchange = stream.exchange else { return false }
        guard takeBody(exchange) else {
          // The end of the body may have completed the exchange at once; then the next request follows.
          if phase == .idle { continue }
          return phase == .exchanging && stream.exchange === exchange && !isBodyPaused
        }
      case .tunnelling:
        guard !isBodyPaused, let exchange = stream.exchange else { return false }
        if input.isEmpty { return true }
        exchange.tunnelBytes(input.readable)
        input.removeAll()
      case .lingering:
        input.removeAll()
        return true
      case .rejoining, .ending, .closed: return false
      }
    }
  }

  /// Returns true if a head was complete and its exchange has begun, and perhaps ended.
  private func takeHead() -> Bool {
    if let reading { return takeHead(into: reading) }
    return takeHead(into: worker.takeExchange())
  }

  // The caller holds the exchange, so this function counts no reference to it.
  @inline(never)
  private func takeHead(into exchange: Exchange) -> Bool {
    switch parser.request(input.readable, limits: session.firstServer.headLimits, into: exchange.head) {
    case .incomplete:
      // `client_header_timeout` starts once, with the head's first byte; later bytes don't extend it.
      if reading == nil && session.requests > 0 {
        transport.setDeadline(in: session.firstServer.settings.head.timeout)
      }
      reading = exchange
      return false
    case .failed(let error):
      refuse(exchange, error)
      return false
    case .complete(let consumed):
      parser = HeadParser()
      // The request may be a replay. The connection parses it again when the handshake is over.
      if session.isEarly && !exchange.head.mayBeEarly {
        exchange.head.reset()
        reading = exchange
        return false
      }
      input.consume(consumed)
      if input.isEmpty { input.release() }
      decoder = BodyDecoder(exchange.head.framing)
      beginExchange(exchange)
      exchange.begin(stream)
      return true
    }
  }

  private func beginExchange(_ exchange: Exchange) {
    phase = .exchanging
    if reading != nil { reading = nil }
    session.requests += 1
    stream.requestNumber = session.requests
    isBodyPaused = true
    transport.setDeadline(in: nil)
    stream.begin(exchange)
  }

  /// `error`: nil if the head didn't end in time.
  private func refuse(_ exchange: Exchange, _ error: HeadError?) {
    parser = HeadParser()
    beginExchange(exchange)
    exchange.beginRefused(stream, error)
  }

  /// Ends an idle connection, unless a request has just arrived.
  private func idleDeadlinePassed() {
    let waited = !input.isEmpty || session.requests == 0, requests = session.requests
    if input.isEmpty {
      transport.expectInput()
      pump()
    }
    guard phase == .idle, session.requests == requests else { return }
    if input.isEmpty { return close() }
    if waited { refuseUnfinishedHead() }
  }

  private func refuseUnfinishedHead() {
    let exchange = reading ?? worker.takeExchange()
    parser.abandon(input.readable, limits: session.firstServer.headLimits, exchange.head)
    refuse(exchange, nil)
  }

  /// There is nothing more to read.
  private func inputDidEnd() {
    switch phase {
    // The body is not whole.
    case .exchanging: stream.exchange?.clientDidLeave()
    case .tunnelling: stream.exchange?.tunnelDidEnd()
    // The client may still take what it has asked for.
    case .idle where transport.pendingCount > 0 && !transport.hasPeerReset: end(lingers: false)
    case .idle, .rejoining, .lingering: close()
    case .ending, .closed: break
    }
  }

  /// The client has ended its side, perhaps before all of its bytes were read.
  private func clientDidEnd() {
    guard phase == .exchanging, let exchange = stream.exchange else { return }
    if transport.hasPeerReset { exchange.clientDidLeave() } else { exchange.clientDidEnd() }
  }

  // MARK: Calls of the stream

  /// A response begins. Mostly its policy is that of the response before: then no count is touched.
  func didAnswer(_ policy: ResponsePolicy) { if self.policy !== policy { self.policy = policy } }

  func becomeTunnel() { phase = .tunnelling }

  /// The last byte of the response was written. `keepsAlive`: the connection takes another request.
  func exchangeDidEnd(keepsAlive: Bool) {
    // The client left earlier, and the exchange continued without the client.
    guard phase != .closed else { return }
    let isWhole = isBodyRead
    guard keepsAlive, isWhole, !hasNothingToRead, policy.keepaliveTimeout > 0
    else { return end(lingers: !isWhole && policy.lingers) }
    idleStart = transport.loop.now
    stream.isPipelined = !input.isEmpty
    // The head promised that the connection stays, and the client may be sending its next request. After a reload that
    // request is for the new generation. The exchange is still ending, so the session moves in a later turn.
    if session.rejoins {
      phase = .rejoining
      return transport.loop.again(transport)
    }
    phase = .idle
    watchSending(idleTimeout)
    if !isPumping { pump() }
  }

  /// Whether the client has ended its side, and each of its requests was read.
  private var hasNothingToRead: Bool {
    transport.hasPeerEnd && input.isEmpty && !transport.hasBufferedInput && !transport.hasUnreadBytes
  }

  private func rejoin() {
    phase = .idle
    session.rejoin()
    guard phase == .idle else { return }
    watchSending(idleTimeout)
    pump()
  }

  // MARK: Ends

  /// Milliseconds that the connection waits for a request.
  private var idleTimeout: Int {
    session.isLeaving ? min(policy.keepaliveTimeout, DrainPatience.idle) : policy.keepaliveTimeout
  }

  /// A client may be sending a request at this moment. It gets some time, and its response says `Connection: close`.
  package override func drain() {
    if hasNoRequest { transport.setDeadline(in: DrainPatience.idle) }
  }

  /// Gives the client `timeout` milliseconds to take waiting bytes or to make its next request.
  private func watchSending(_ timeout: Int) {
    mark.set(transport.wireBytesOut)
    transport.setDeadline(in: timeout)
  }

  package override func end() { end(lingers: false) }

  /// Sends the waiting bytes, then closes. `lingers`: discards late bytes first (`lingering_close`), so that no RST is
  /// sent.
  func end(lingers: Bool) {
    phase = .ending
    isLingering = lingers
    // There is no close_notify before the handshake's end.
    if !session.isEarly { transport.announceEnd() }
    transport.loop.cork.flush()
    guard phase == .ending else { return }
    if transport.pendingCount > 0 || session.isEarly {
      watchSending(policy.sendTimeout)
    } else {
      finishEnding()
    }
  }

  private func finishEnding() {
    if session.isEarly { return }
    guard isLingering else { return close(lastClosing) }
    phase = .lingering
    transport.endOutput()
    transport.setDeadline(in: policy.lingeringTimeout)
    if !isPumping { pump() }
  }

  /// Closes the connection after an incomplete response. `drains`: first the client takes what it has not taken yet, with
  /// `send_timeout` between two writes; otherwise it gets what fits into the socket.
  func abort(_ closing: ByteStream.Closing, drains: Bool) {
    transport.loop.cork.flush()
    guard drains, phase != .closed, transport.pendingCount > 0 else { return close(closing) }
    (phase, isLingering, lastClosing) = (.ending, false, closing)
    watchSending(policy.sendTimeout)
  }

  /// Ends the connection at once, even during an exchange.
  package override func cut() {
    if let exchange = stream.exchange { return exchange.streamWasCut() }
    close()
  }

  /// Closes the session, which releases this connection. A caller must do nothing after this call.
  private func close(_ closing: ByteStream.Closing = .orderly) {
    guard phase != .closed else { return }
    phase = .closed
    input.release()
    if let reading {
      worker.giveBack(reading)
      self.reading = nil
    }
    stream.connectionDidClose()
    session.close(closing)
  }
}

extension HTTP1Connection {
  /// nil once the connection is closed.
  package static func state(_ phase: Phase, isReading: Bool) -> ClientState? {
    switch phase {
    case .idle: isReading ? .active : .idle
    case .rejoining: .idle
    case .exchanging: .active
    case .tunnelling: .tunnel
    case .ending, .lingering: .draining
    case .closed: nil
    }
  }
}
