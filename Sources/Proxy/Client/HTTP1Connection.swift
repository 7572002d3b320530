import Bytes
import HTTP
import Transport

/// HTTP/1 towards a client: reads heads, hands each to an exchange by way of the connection's one stream, feeds it the
/// body, and keeps the order of pipelined requests.
///
///     idle ──► (head) exchanging ──► idle …            keep-alive, pipelining
///                  │
///                  ├──► tunnelling                      after an upstream's 101
///                  └──► ending ──► lingering ──► closed the response goes out, late bytes are thrown away
final class HTTP1Connection: StreamOwner {
  enum Phase {
    case idle, exchanging, tunnelling, ending, lingering, closed
  }

  // Uncounted: the session owns the connection, and the stream counts the session.
  private unowned(unsafe) let session: ClientSession
  private let transport: ByteStream
  private let worker: Worker
  private let stream: HTTP1Stream
  private(set) var phase = Phase.idle
  /// Since when the connection waits for a request.
  private(set) var idleSince: UInt64
  /// The exchange whose head is being read.
  private var reading: Exchange?
  private var input = ByteBuffer()
  private var parser = HeadParser(), decoder = BodyDecoder(.none)
  private var isPumping = false, isBodyPaused = true, isLingering = false
  /// Of the location that answered last.
  @exclusivity(unchecked) var limits = LocationLimits()
  /// What had gone out when the transport's deadline was set.
  private var sentAtDeadline: UInt64 = 0

  private static let readSize = 16 * 1024, pumpLimit = 1 << 20
  /// Bytes that may wait for a client before its next pipelined request is looked at.
  private static let pipelineWatermark = 64 * 1024

  /// Takes a transport over whose handshake is done, or far enough for early data.
  init(_ session: ClientSession, _ transport: ByteStream) {
    self.session = session
    self.transport = transport
    self.worker = session.worker
    self.stream = HTTP1Stream(session)
    self.idleSince = session.facts.openedAt
    super.init()
    stream.connection = self
  }

  /// No exchange is under way.
  var isIdle: Bool { phase == .idle }
  /// No exchange is under way, and not a byte of the next request has come.
  var hasNoRequest: Bool { phase == .idle && input.isEmpty && reading == nil }

  // MARK: Transport events

  override func streamIsReadable() {
    switch phase {
    case .idle, .lingering, .tunnelling: pump()
    case .exchanging:
      pump()
      if phase == .exchanging, transport.hasPeerEnd { stream.exchange?.clientDidLeave() }
    // The handshake of a client that sent early data is over.
    case .ending: if transport.pendingCount == 0 { finishEnding() }
    case .closed: break
    }
  }

  override func streamAgain() { streamIsReadable() }

  override func streamDidDrain() {
    switch phase {
    case .ending: finishEnding()
    case .exchanging, .tunnelling:
      guard let exchange = stream.exchange else { return }
      stream.setDeadline(in: isBodyPaused || phase == .tunnelling ? nil : exchange.bodyTimeout)
      exchange.streamDidDrain()
    case .idle:
      if session.requests > 0 && reading == nil { transport.setDeadline(in: limits.keepaliveTimeout) }
      pump()
    case .lingering, .closed: break
    }
  }

  override func streamDidFail(_ failure: StreamFailure) {
    if let exchange = stream.exchange {
      exchange.clientDidLeave()
      if phase == .closed { return }
    }
    close()
  }

  override func streamDeadlinePassed() {
    // Slow, but taking: `send_timeout` is between two writes, not for all of a response.
    if transport.pendingCount > 0, transport.wireBytesOut != sentAtDeadline, phase != .lingering {
      return watchSending(limits.sendTimeout)
    }
    switch phase {
    case .idle:
      if !input.isEmpty { return refuseUnfinishedHead() }
      close()
    case .ending, .lingering:
      // Bytes that still wait are lost: the client must not take what it has for all.
      close(session.firstServer.root.limits.resetsTimedOut || transport.pendingCount > 0 ? .reset : .abrupt)
    // An exchange has the stream's deadline.
    case .exchanging, .tunnelling, .closed: break
    }
  }

  // MARK: Reading

  /// Works off input until there is none, or until an exchange must be waited for.
  func pump() {
    guard !isPumping else { return }
    isPumping = true
    defer { isPumping = false }
    var taken = 0
    while phase != .closed {
      guard consumeInput() else { break }
      guard taken < Self.pumpLimit else {
        transport.loop.again(transport)
        break
      }
      // Nothing is there, as the last read has shown: the next edge tells.
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

  /// False when nothing is to be read for now.
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
          // The end of the body may have brought the response at once: then the next request is due.
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
      case .ending, .closed: return false
      }
    }
  }

  /// True when a head was complete and its exchange begun (and perhaps ended).
  private func takeHead() -> Bool { takeHead(into: reading ?? worker.takeExchange()) }

  // The exchange is the caller's: nothing of it is counted here.
  @inline(never)
  private func takeHead(into exchange: Exchange) -> Bool {
    let server = session.firstServer
    switch parser.request(input.readable, limits: server.headLimits, into: exchange.head) {
    case .incomplete:
      // From its first byte on a head has its time, once: dripping bytes do not prolong it.
      if reading == nil && session.requests > 0 { transport.setDeadline(in: server.settings.head.timeout) }
      reading = exchange
      return false
    case .failed(let error):
      refuse(exchange, error)
      return false
    case .complete(let consumed):
      parser = HeadParser()
      // Might be a replay: the connection reads it again when the handshake is over.
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
    if reading != nil { reading = nil }
    session.requests += 1
    phase = .exchanging
    isBodyPaused = true
    transport.setDeadline(in: nil)
    stream.begin(exchange)
  }

  /// `error`: nil, the head did not come to its end in time.
  private func refuse(_ exchange: Exchange, _ error: HeadError?) {
    parser = HeadParser()
    beginExchange(exchange)
    exchange.beginRefused(stream, server: session.firstServer, error)
  }

  private func refuseUnfinishedHead() {
    let exchange = reading ?? worker.takeExchange()
    parser.abandon(input.readable, exchange.head)
    refuse(exchange, nil)
  }

  /// True when a step was made.
  private func takeBody(_ exchange: Exchange) -> Bool {
    switch decoder.next(input.readable) {
    case .needsMore(let consumed):
      input.consume(consumed)
      stream.setDeadline(in: exchange.bodyTimeout)
      return false
    case .data(let start, let count, let consumed):
      let bytes = input.readable[ByteRange(start: start, count: count)]
      // Taken off before the exchange has them: it may end over them, or throw away what is left of the body. They stay
      // where they are until more is read.
      input.consume(consumed)
      exchange.requestBody(bytes)
      return phase == .exchanging && stream.exchange === exchange
    case .end(let consumed):
      input.consume(consumed)
      isBodyPaused = true
      stream.setDeadline(in: nil)
      exchange.requestBodyDidEnd(trailers: decoder.trailers)
      return false
    case .failed(let error):
      isBodyPaused = true
      exchange.requestBodyIsInvalid(error)
      return false
    }
  }

  private func inputDidEnd() {
    switch phase {
    case .exchanging: stream.exchange?.clientDidLeave()
    case .tunnelling: stream.exchange?.tunnelDidEnd()
    case .idle, .lingering: close()
    case .ending, .closed: break
    }
  }

  // MARK: What the stream asks for

  var isBodyRead: Bool { decoder.isEnded }

  func pauseBody() { isBodyPaused = true }

  func resumeBody() {
    guard isBodyPaused, phase == .exchanging || phase == .tunnelling else { return }
    isBodyPaused = false
    pump()
  }

  func discardBody() {
    isBodyPaused = true
    while !decoder.isEnded {
      switch decoder.next(input.readable) {
      case .data(_, _, let consumed): input.consume(consumed)
      case .end(let consumed), .needsMore(let consumed): return input.consume(consumed)
      case .failed: return
      }
    }
  }

  func becomeTunnel() { phase = .tunnelling }

  /// The last byte of the response was written. `keepsAlive`: the connection takes another request.
  func exchangeDidEnd(keepsAlive: Bool) {
    // The client had left, and its exchange went on without it.
    guard phase != .closed else { return }
    let isWhole = isBodyRead
    guard keepsAlive, isWhole, !transport.hasPeerEnd || !input.isEmpty, !session.isLeaving, limits.keepaliveTimeout > 0
    else { return end(lingers: !isWhole && limits.lingeringClose) }
    phase = .idle
    idleSince = transport.loop.now
    watchSending(limits.keepaliveTimeout)
    if !isPumping { pump() }
  }

  // MARK: Ends

  /// The client has so long to take something of what waits for it, or to make its next request.
  private func watchSending(_ timeout: Int) {
    sentAtDeadline = transport.wireBytesOut
    transport.setDeadline(in: timeout)
  }

  /// Sends what waits, then closes; with bytes still on their way from the client not before it had time to read.
  func end(lingers: Bool) {
    phase = .ending
    isLingering = lingers
    transport.loop.cork.flush()
    guard phase == .ending else { return }
    if transport.pendingCount > 0 || session.isEarly {
      watchSending(limits.sendTimeout)
    } else {
      finishEnding()
    }
  }

  private func finishEnding() {
    // There is no close_notify before the handshake's end.
    if session.isEarly { return }
    guard isLingering else { return close() }
    phase = .lingering
    transport.endOutput()
    transport.setDeadline(in: min(limits.lingeringTimeout, limits.lingeringTime))
    if !isPumping { pump() }
  }

  /// The response broke off. What was written of it still goes out.
  func abort(_ closing: ByteStream.Closing) {
    transport.loop.cork.flush()
    close(closing)
  }

  /// At once, whatever is under way.
  func cut() {
    if let exchange = stream.exchange { return exchange.streamWasCut() }
    close()
  }

  /// The session lets go of the connection here: nothing may follow a call.
  private func close(_ closing: ByteStream.Closing = .orderly) {
    guard phase != .closed else { return }
    phase = .closed
    input.release()
    if let reading { worker.giveBack(reading) }
    reading = nil
    stream.connectionDidClose()
    session.close(closing)
  }
}
