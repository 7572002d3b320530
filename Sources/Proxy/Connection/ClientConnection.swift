import Bytes
import HTTP
import Observability
import Patterns
import TLS
import Transport

/// One client's transport: reads heads, hands each to an exchange, feeds it the body, and keeps order on the wire.
///
///     opening ──► idle ──► (head) exchanging ──► idle …            keep-alive, pipelining
///                              │
///                              ├──► tunnelling                      after an upstream's 101
///                              └──► ending ──► lingering ──► closed the answer goes out, late bytes are thrown away
final class ClientConnection: StreamOwner {
  enum Phase {
    case opening, idle, exchanging, tunnelling, ending, lingering, closed
  }

  let worker: Worker
  /// Others after a reload, while nothing is under way (`move`).
  var live: LiveGeneration, servers: VirtualServers
  let stream: ByteStream
  let facts: ConnectionFacts
  private(set) var phase = Phase.opening
  /// Since when it waits for a request.
  private(set) var idleSince: UInt64
  private(set) var requests = 0
  /// Plain bytes of responses, handed to the transport (nginx's `$bytes_sent` counts these).
  private(set) var sentBytes: UInt64 = 0
  private(set) var exchange: Exchange?
  /// Whose head is being read.
  private(set) var reading: Exchange?
  private(set) var input = ByteBuffer()
  private var parser = HeadParser(), decoder = BodyDecoder(.none), isPumping = false
  /// The exchange takes no body bytes now.
  private var isBodyPaused = false
  /// Of the location that answered last.
  private var limits = LocationLimits()
  /// What had gone out when the deadline was set.
  private var sentAtDeadline: UInt64 = 0
  var hostChoice = HostChoice()

  private static let readSize = 16 * 1024, pumpLimit = 1 << 20
  /// Bytes that may wait for a client before its next request is looked at.
  private static let backlogLimit = 64 * 1024

  init(
    worker: Worker, live: LiveGeneration, servers: VirtualServers, stream: ByteStream, peer: SocketAddress,
    number: UInt64
  ) {
    self.worker = worker
    self.live = live
    self.servers = servers
    self.firstServer = servers.fallback
    self.stream = stream
    self.idleSince = stream.loop.now
    self.facts = ConnectionFacts(number: number, peer: peer, stream: stream)
    super.init()
    stream.owner = self
  }

  var admission = Admission.undecided
  /// The server block that is meant before any Host is known: that of the SNI, or the default.
  var firstServer: LiveServer

  func begin() {
    stream.setDeadline(in: servers.fallback.settings.head.timeout)
    stream.begin()
  }

  // MARK: Stream events

  override func streamDidOpen() {
    admit()
    if let tls = facts.tls { worker.metrics.clients.count(ClientOutcome(tls.clientVerdict)) }
    phase = .idle
    stream.setDeadline(in: firstServer.settings.head.timeout)
  }

  override func streamIsReadable() {
    switch phase {
    case .idle, .lingering, .tunnelling: pump()
    case .exchanging:
      pump()
      if phase == .exchanging, stream.hasPeerEnd { exchange?.clientDidLeave() }
    // The handshake of who spoke early is over.
    case .ending: if stream.pendingCount == 0 { finishEnding() }
    case .opening, .closed: break
    }
  }

  override func streamAgain() { streamIsReadable() }

  override func streamDidDrain() {
    switch phase {
    case .ending: finishEnding()
    case .exchanging, .tunnelling: exchange?.clientDidDrain()
    case .idle:
      if requests > 0 && reading == nil { stream.setDeadline(in: limits.keepaliveTimeout) }
      pump()
    case .opening, .lingering, .closed: break
    }
  }

  override func streamDidFail(_ failure: StreamFailure) {
    if phase == .opening { handshakeDidFail(failure) }
    if let exchange {
      exchange.clientDidLeave()
      if phase == .closed { return }
    }
    close()
  }

  override func streamDeadlinePassed() {
    // Slow, but taking: `send_timeout` is between two writes, not for all of an answer.
    if stream.pendingCount > 0, stream.wireBytesOut != sentAtDeadline, phase != .lingering {
      return watchSending(exchange?.location.limits.sendTimeout ?? limits.sendTimeout)
    }
    switch phase {
    case .exchanging, .tunnelling: exchange?.clientDeadlinePassed()
    case .opening, .idle:
      if phase == .idle && !input.isEmpty { return refuseUnfinishedHead() }
      if phase == .opening { handshakeDidFail(nil) }
      close()
    case .ending, .lingering:
      // Bytes that still wait are lost: the client must not take what it has for all.
      stream.close(firstServer.root.limits.resetsTimedOut || stream.pendingCount > 0 ? .reset : .abrupt)
      didClose()
    case .closed: break
    }
  }

  // MARK: Reading

  /// Works off input until there is none, or somebody must be waited for.
  func pump() {
    guard !isPumping else { return }
    isPumping = true
    defer { isPumping = false }
    var taken = 0
    while phase != .closed {
      guard consumeInput() else { break }
      guard taken < Self.pumpLimit else {
        stream.loop.again(stream)
        break
      }
      // Nothing is there, as the last read has shown: the next edge tells.
      guard stream.mayHaveInput else {
        if input.isEmpty { input.release() }
        break
      }
      input.reserve(Self.readSize)
      switch stream.read(into: input.writable) {
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
        guard stream.pendingCount < Self.backlogLimit else { return false }
        if input.isEmpty { return true }
        guard takeHead() else { return phase == .idle }
      case .exchanging:
        guard let exchange, exchange.wantsBody, !isBodyPaused else { return false }
        guard takeBody(exchange) else {
          // Its end may have brought the answer at once: then the next request is due.
          if phase == .idle { continue }
          return phase == .exchanging && self.exchange === exchange && !isBodyPaused && exchange.wantsBody
        }
      case .tunnelling:
        guard let exchange else { return false }
        if input.isEmpty { return !exchange.isTunnelFull }
        exchange.tunnelFromClient(input.readable)
        input.removeAll()
      case .lingering:
        input.removeAll()
        return true
      case .opening, .ending, .closed: return false
      }
    }
  }

  /// True when a head was complete and its exchange begun (and perhaps ended).
  private func takeHead() -> Bool { takeHead(into: reading ?? worker.takeExchange()) }

  // The exchange is the caller's: nothing of it is counted here.
  @inline(never)
  private func takeHead(into exchange: Exchange) -> Bool {
    switch parser.request(input.readable, limits: firstServer.headLimits, into: exchange.head) {
    case .incomplete:
      // From its first byte on a head has its time, once: dripping bytes don't prolong it.
      if reading == nil && requests > 0 { stream.setDeadline(in: firstServer.settings.head.timeout) }
      reading = exchange
      return false
    case .failed(let error):
      parser = HeadParser()
      requests += 1
      reading = nil
      self.exchange = exchange
      phase = .exchanging
      exchange.beginRefused(self, server: firstServer, error)
      return false
    case .complete(let consumed):
      parser = HeadParser()
      // Might be a replay: it is read again when the handshake is over.
      if stream.isEarly && !exchange.head.mayBeEarly {
        exchange.head.reset()
        reading = exchange
        return false
      }
      if reading != nil { reading = nil }
      input.consume(consumed)
      if input.isEmpty { input.release() }
      requests += 1
      self.exchange = exchange
      phase = .exchanging
      isBodyPaused = false
      decoder = BodyDecoder(exchange.head.framing)
      stream.setDeadline(in: nil)
      exchange.begin(self)
      return true
    }
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
      return phase == .exchanging && self.exchange === exchange
    case .end(let consumed):
      input.consume(consumed)
      stream.setDeadline(in: nil)
      exchange.requestBodyDidEnd(trailers: decoder.trailers)
      return false
    case .failed(let error):
      exchange.requestBodyIsInvalid(error)
      return false
    }
  }

  private func inputDidEnd() {
    switch phase {
    case .exchanging: exchange?.clientDidLeave()
    case .tunnelling: exchange?.tunnelClientDidEnd()
    case .idle, .opening, .lingering: close()
    case .ending, .closed: break
    }
  }

  private func refuseUnfinishedHead() {
    let exchange = reading ?? worker.takeExchange()
    reading = nil
    parser.abandon(input.readable, exchange.head)
    self.exchange = exchange
    phase = .exchanging
    exchange.beginRefused(self, server: firstServer, nil)
  }

  // MARK: What an exchange asks for

  /// From here on it is the upstream's time that runs.
  func pauseBody() {
    isBodyPaused = true
    stream.setDeadline(in: nil)
  }

  /// The client has so long to take something of what waits for it.
  func watchSending(_ timeout: Int) {
    sentAtDeadline = stream.wireBytesOut
    stream.setDeadline(in: timeout)
  }

  func resumeBody() {
    guard isBodyPaused else { return }
    isBodyPaused = false
    pump()
  }

  /// Whether the whole request has been read.
  var isBodyRead: Bool { decoder.isEnded }

  /// Throws away what of the body is at hand: a small one is over with it, and the connection lives on.
  func discardBody() {
    while !decoder.isEnded {
      switch decoder.next(input.readable) {
      case .data(_, _, let consumed): input.consume(consumed)
      case .end(let consumed), .needsMore(let consumed): return input.consume(consumed)
      case .failed: return
      }
    }
  }

  @inline(never)
  func send(_ bytes: UnsafeRawBufferPointer) {
    sentBytes &+= UInt64(bytes.count)
    stream.write(bytes)
  }

  func becomeTunnel() {
    phase = .tunnelling
    stream.setDeadline(in: nil)
  }

  /// The last byte of the answer was written. `persists`: the connection takes another request.
  func exchangeDidEnd(persists: Bool) {
    guard let exchange else { return }
    limits = exchange.location.limits
    let isWhole = isBodyRead
    self.exchange = nil
    worker.giveBack(exchange)
    // The client had left, and its exchange went on without it.
    guard phase != .closed else { return }
    guard persists, isWhole, !stream.hasPeerEnd || !input.isEmpty, !isLeaving, limits.keepaliveTimeout > 0
    else { return end(lingers: !isWhole && limits.lingeringClose) }
    phase = .idle
    idleSince = stream.loop.now
    watchSending(limits.keepaliveTimeout)
    if !isPumping { pump() }
  }

  /// Sends what waits, then closes; with bytes still on their way from the client not before it had time to read.
  func end(lingers: Bool) {
    phase = .ending
    isLingering = lingers
    stream.loop.cork.flush()
    guard phase == .ending else { return }
    if stream.pendingCount > 0 || stream.isEarly {
      watchSending(limits.sendTimeout)
    } else {
      finishEnding()
    }
  }
  private var isLingering = false

  private func finishEnding() {
    // There is no close_notify before the handshake's end.
    if stream.isEarly { return }
    guard isLingering else { return close() }
    phase = .lingering
    stream.endOutput()
    stream.setDeadline(in: min(limits.lingeringTimeout, limits.lingeringTime))
    if !isPumping { pump() }
  }

  // MARK: Ends

  /// The answer broke off: the client must not take what it has for all.
  func abort(_ closing: ByteStream.Closing) {
    if let exchange {
      self.exchange = nil
      worker.giveBack(exchange)
    }
    stream.loop.cork.flush()
    stream.close(closing)
    didClose()
  }

  /// At once, whatever is under way.
  func cut() {
    let running = exchange
    exchange = nil
    stream.close(running?.connectionWasCut() ?? .orderly)
    didClose()
  }

  func close() {
    guard phase != .closed else { return }
    stream.close()
    didClose()
  }

  private func didClose() {
    guard phase != .closed else { return }
    phase = .closed
    input.release()
    if let reading { worker.giveBack(reading) }
    reading = nil
    worker.didClose(self)
  }
}
