import Bytes
import HTTP
import Observability
package import Transport

/// HTTP/2 towards a client: begins an exchange for each stream, and passes its frames between libnghttp2 and the
/// transport.
///
///     serving ──► leaving (announced) ──► leaving (final) ──► closed
///
/// A connection leaves by two GOAWAY frames (RFC 9113 §6.8): the first announces it, the second names the last stream, once
/// the client has read the first. Streams in progress are completed.
package final class HTTP2Connection: ClientConnection {
  package enum Phase {
    case serving
    /// `final`: the second GOAWAY has gone.
    case leaving(final: Bool)
    case closed
  }

  // Not retained: the session owns the connection, and each stream retains the session.
  unowned(unsafe) let session: ClientSession
  private let transport: ByteStream
  private let worker: Worker
  let frames = ClientFrames()
  private(set) var phase = Phase.serving { didSet { noteState() } }
  private var idleStart: UInt64, open = OpenStreams()
  /// Exchanges in progress.
  private(set) var active = 0 { didSet { noteState() } }
  /// Streams that closed while their exchange was in progress, and streams whose pending bytes have gone: they are told
  /// after libnghttp2 has returned, because an exchange may then do anything.
  private var left: [HTTP2Stream] = [], drained: [HTTP2Stream] = []
  /// libnghttp2 is reading: nothing may be pulled.
  private var isReceiving = false, turn = HTTP2Turn()
  /// Bytes that were read, and wait for the next turn.
  private var unread = ByteBuffer()
  /// Set by the worker's `HTTP2Line`.
  var isInLine = false
  private lazy var pause = HTTP2Pause(self, transport.loop)
  private var deadline = HTTP2Deadline(), noted: Set<HTTP2Limit> = []
  /// That of the last response.
  private var policy = ResponsePolicy.initial

  /// While more bytes than this wait for the client, the connection reads nothing and asks no stream for more.
  private static let watermark = 64 * 1024
  /// Milliseconds that the client has to answer the first GOAWAY.
  private static let shutdownTime = 1000

  init(_ session: ClientSession, _ transport: ByteStream) {
    self.session = session
    self.transport = transport
    self.worker = session.worker
    self.idleStart = session.facts.openedAt
    super.init()
    frames.connection = self
  }

  /// Sends the first SETTINGS. Returns false if memory is lacking.
  func begin() -> Bool {
    guard frames.start(.server, HTTP2Announcement(session.firstServer)) else { return false }
    hasOutput()
    watchDeadline()
    // The drain, or a reload, came before the end of the handshake.
    if session.isLeaving || !session.firstServer.settings.http2.isOn { leave() }
    return true
  }

  package override var isHTTP2: Bool { true }
  package override var isIdle: Bool { active == 0 }
  package override var transactions: [Transaction] { open.all.compactMap(\.exchange) }
  package override var hasNoRequest: Bool { open.isEmpty && isIdle }
  package override var idleSince: UInt64 { idleStart }
  var hasClientLeft: Bool { transport.isClosed || transport.hasPeerEnd }
  private var isOver: Bool { if case .closed = phase { true } else { false } }

  // MARK: Transport events

  package override func streamIsReadable() {
    // The handshake may be over, for which requests wait.
    if open.hasHeld, !session.isEarly { for stream in open.takeHeld() { beginHeld(stream) } }
    pump()
    if transport.hasPeerEnd, !hasInput { close() }
  }

  /// The connection's place in the worker's line has come.
  func takeTurn() { if !isOver { streamAgain() } }

  package override func streamAgain() {
    streamIsReadable()
    sendOutput()
  }

  package override func streamDidDrain() {
    sendOutput()
    pump()
  }

  package override func streamDidFail(_ failure: StreamFailure) { close() }

  package override func streamDeadlinePassed() {
    if deadline.hasProgress(transport) { return watchDeadline(again: true) }
    switch deadline.awaited {
    case .nothing: break
    case .request: end()
    case .headers:
      log("client timed out (110: Connection timed out) while reading client request headers")
      terminate(.noError)
    case .sending: close()
    case .answerToShutdown: announceLastStream()
    }
  }

  // MARK: Input

  private var hasInput: Bool { transport.mayHaveInput || !unread.isEmpty }

  private func pump() {
    guard !isReceiving, !isOver, !pause.isOn else { return }
    if hasInput, transport.pendingCount < Self.watermark, worker.http2Line.admits(self) { takeInput() }
    if isOver { return }
    if frames.hasOutput { hasOutput() }
    settle()
  }

  private func takeInput() {
    let line = worker.http2Line, before = frames.work
    turn.begin(work: before, isStrained: frames.isStrained)
    frames.beginTurn()
    defer { line.didWork(frames.work &- before) }
    while !isOver, transport.pendingCount < Self.watermark {
      if frames.isStrained, turn.taken > 0 { return pause.begin() }
      if turn.isOver(work: frames.work) { return line.wait(self) }
      if !unread.isEmpty {
        var bytes = ByteBuffer()
        bytes.swap(with: &unread)
        turn.didRead(bytes.count)
        receive(bytes.readable)
        continue
      }
      guard transport.mayHaveInput else { return }
      worker.input.removeAll()
      worker.input.reserve(turn.readSize)
      switch transport.read(into: UnsafeMutableRawBufferPointer(rebasing: worker.input.writable[..<turn.readSize])) {
      case .bytes(let count):
        worker.input.didWrite(count)
        turn.didRead(count)
        receive(worker.input.readable)
      case .wouldBlock: return
      case .end, .failed: return close()
      }
    }
  }

  /// Takes bytes that were read to see which protocol the client speaks.
  func take(_ bytes: UnsafeRawBufferPointer) {
    unread.append(bytes)
    pump()
  }

  private func receive(_ bytes: UnsafeRawBufferPointer) {
    isReceiving = true
    let count = frames.receive(bytes)
    isReceiving = false
    guard let count else { return fail() }
    if count < bytes.count { unread.append(UnsafeRawBufferPointer(rebasing: bytes[count...])) }
  }

  /// The connection can't go on.
  private func fail() {
    if let limit = frames.exceeded {
      note(limit)
    } else if let failure = frames.failure {
      log("client sent invalid HTTP/2: \(failure)")
    }
    terminate(frames.exceeded == nil ? .protocolError : .enhanceYourCalm)
  }

  // MARK: Requests

  /// A client opens a stream. Returns nil if it was refused.
  func openStream(_ id: Int32) -> HTTP2Stream? {
    if active >= streamLimit { note(.concurrentStreams) }
    guard takesRequests, active < streamLimit else {
      frames.reset(id, .refusedStream)
      return nil
    }
    return open.add(to: session)
  }

  private var streamLimit: Int { session.firstServer.settings.http2.concurrentStreams }
  /// Whether the client has as many streams as it may have.
  var isFull: Bool { open.all.count >= streamLimit }

  /// Whether a new stream may begin. A client's request must not be judged by a configuration that was replaced; a stream
  /// that was refused with REFUSED_STREAM can be sent again over another connection (RFC 9113 §8.7).
  private var takesRequests: Bool {
    switch phase {
    case .serving, .leaving(final: false): isCurrent
    case .leaving(final: true), .closed: false
    }
  }

  /// Whether the connection belongs to the generation that serves, whose server block has not given up HTTP/2.
  private var isCurrent: Bool { session.live === worker.live && session.firstServer.settings.http2.isOn }

  func takeExchange() -> Exchange { worker.takeExchange() }
  var headLimits: HeadLimits { session.firstServer.headLimits }
  var now: UInt64 { transport.loop.now }

  /// Begins a request of early data after the handshake, unless a reload came meanwhile (`takesRequests`).
  private func beginHeld(_ stream: HTTP2Stream) {
    if isCurrent { stream.exchange?.begin(stream) } else { giveUp(stream) }
  }

  /// Refuses a stream whose exchange has not begun.
  private func giveUp(_ stream: HTTP2Stream) {
    active -= 1
    giveBackUnbegun(stream)
    reset(stream, .refusedStream)
  }

  /// A request's head is complete, or was refused.
  func requestDidArrive(_ exchange: Exchange, _ stream: HTTP2Stream, endsStream: Bool, _ error: HeadError?) {
    session.requests += 1
    stream.requestNumber = session.requests
    active += 1
    stream.exchange = exchange
    stream.expect(exchange.head.framing)
    if session.firstServer.policy.isUsedUp(requests: session.requests, age: session.age) { leave() }
    if endsStream { stream.inputDidEnd(nil) }
    // The reload came while the client sent the head.
    guard isCurrent else { return giveUp(stream) }
    if let error {
      if [.fieldTooLarge, .headTooLarge, .tooManyFields].contains(error) { note(.headerList) }
      return exchange.beginRefused(stream, error)
    }
    // The request may be a replay. It begins when the handshake is over.
    if session.isEarly && !exchange.head.mayBeEarly { return open.hold(stream) }
    exchange.begin(stream)
  }

  // MARK: Streams

  func credit(_ id: Int32, _ count: Int) {
    frames.credit(id, count)
    hasOutput()
  }

  /// libnghttp2 has closed the stream.
  func streamDidClose(_ stream: HTTP2Stream) {
    if let exchange = frames.dropBlock(of: stream) { worker.giveBack(exchange) }
    if open.hasHeld, open.release(stream) {
      active -= 1
      giveBackUnbegun(stream)
    }
    stream.didClose()
    if stream.exchange != nil { left.append(stream) } else { remove(stream) }
  }

  /// Gives back an exchange that a stream has, and that has not begun.
  private func giveBackUnbegun(_ stream: HTTP2Stream) {
    guard let exchange = stream.exchange else { return }
    stream.exchange = nil
    worker.giveBack(exchange)
  }

  private func remove(_ stream: HTTP2Stream) {
    open.remove(stream)
    if open.isEmpty { idleStart = now }
  }

  /// An exchange has released its stream or cut it.
  func exchangeDidEnd(_ stream: HTTP2Stream) {
    active -= 1
    if stream.isFree { remove(stream) }
    hasOutput()
  }

  func reset(_ stream: HTTP2Stream, _ code: HTTP2ErrorCode) {
    frames.reset(stream.id, code)
    hasOutput()
  }

  /// The client gives no window to a stream whose exchange is over.
  func didStall(_ stream: HTTP2Stream) {
    note(.stalledStreams)
    reset(stream, .cancel)
  }

  // MARK: Output

  func didAnswer(_ policy: ResponsePolicy) { if self.policy !== policy { self.policy = policy } }

  /// Has the frames sent that libnghttp2 has ready, after this batch of events: responses of several upstreams then make
  /// one TLS record and one system call.
  func hasOutput() { transport.loop.again(transport) }

  func send(_ count: Int, of stream: HTTP2Stream, after frameHeader: UnsafeRawBufferPointer) {
    transport.write(frameHeader)
    if stream.write(count, to: transport) { drained.append(stream) }
  }

  private func sendOutput() {
    guard !isOver else { return }
    _ = pull()
    settle()
  }

  /// Writes the frames that libnghttp2 has ready. Returns false if the connection can't go on.
  private func pull() -> Bool {
    guard !isReceiving, transport.pendingCount < Self.watermark else { return true }
    return frames.pull { bytes in
      transport.write(bytes)
      return transport.pendingCount < Self.watermark
    }
  }

  /// Whether the last response of a connection that leaves has gone.
  private var isAtEnd: Bool {
    guard case .leaving(final: true) = phase else { return false }
    return open.isEmpty && !frames.hasOutput
  }

  /// Tells the exchanges what libnghttp2 has reported, and ends the connection if it is over.
  private func settle() {
    guard !isReceiving, !isOver else { return }
    while !left.isEmpty || !drained.isEmpty {
      if let stream = left.popLast() {
        stream.exchange?.clientDidLeave()
        if stream.isFree { remove(stream) }
      }
      if let stream = drained.popLast() { stream.didDrain() }
    }
    if isOver { return }
    if frames.exceeded != nil || frames.failure != nil { return fail() }
    if !frames.isAlive || isAtEnd {
      // Bytes that wait go first.
      transport.loop.cork.flush()
      if transport.pendingCount == 0 { return close() }
    }
    watchDeadline()
  }

  // MARK: Deadlines

  private func watchDeadline(again: Bool = false) {
    deadline.set(awaited, transport, again: again) {
      switch awaited {
      case .nothing: nil
      case .request where session.requests > 0: policy.keepaliveTimeout
      case .request, .headers: session.firstServer.settings.head.timeout
      case .sending: policy.sendTimeout
      case .answerToShutdown: Self.shutdownTime
      }
    }
  }

  private var awaited: HTTP2Deadline.Awaited {
    if transport.pendingCount > 0 { return .sending }
    if case .leaving(final: false) = phase { return .answerToShutdown }
    if frames.isInBlock { return .headers }
    return open.isEmpty && isIdle ? .request : .nothing
  }

  // MARK: Ends

  package override func end() { leave() }
  package override func retire() { leave() }
  package override func drain() { leave() }

  /// Takes no more requests soon, and closes after those in progress.
  private func leave() {
    guard case .serving = phase else { return }
    phase = .leaving(final: false)
    frames.announceShutdown()
    hasOutput()
    watchDeadline()
  }

  /// The client has read that the connection ends.
  func announceLastStream() {
    guard case .leaving(final: false) = phase else { return }
    phase = .leaving(final: true)
    frames.goAway()
    hasOutput()
    watchDeadline()
  }

  package override func cut() {
    for stream in open.all { stream.exchange?.streamWasCut() }
    terminate(.noError)
  }

  /// Says why the connection ends, where there is something to say, and closes it.
  private func terminate(_ code: HTTP2ErrorCode) {
    guard !isOver else { return }
    frames.terminate(code)
    _ = pull()
    close()
  }

  /// Closes the session, which releases this connection. A caller must do nothing after this call.
  private func close() {
    guard !isOver else { return }
    phase = .closed
    pause.end()
    if let exchange = frames.dropBlock() { worker.giveBack(exchange) }
    for stream in open.takeHeld() { giveBackUnbegun(stream) }
    let streams = open.removeAll()
    frames.connection = nil
    let closing: ByteStream.Closing = frames.failure == nil ? .orderly : .abrupt
    let abandoned = streams.filter { $0.exchange != nil }
    for stream in streams { stream.connectionDidClose() }
    for stream in abandoned { stream.exchange?.clientDidLeave() }
    session.close(closing)
  }

  // MARK: Log and metrics

  func log(_ reason: String) { session.log(.info, reason) }

  /// Counts each time, and writes one line for a connection.
  func note(_ limit: HTTP2Limit) {
    worker.counters.http2.count(limit)
    if noted.insert(limit).inserted { log("\(limit.reason)") }
  }
}

extension HTTP2Connection {
  func noteState() {
    // A closed connection may have outlived its session.
    if case .closed = phase { return }
    session.become(Self.state(phase, active: active, tunnels: session.tunnels))
  }

  /// `active`: exchanges in progress; `tunnels`: how many of them are tunnels. nil once the connection is closed.
  package static func state(_ phase: Phase, active: Int, tunnels: Int) -> ClientState? {
    switch phase {
    case .closed: nil
    case .serving where active == 0: .idle
    case .leaving where active == 0: .draining
    case .serving, .leaving: tunnels >= active ? .tunnel : .active
    }
  }
}
