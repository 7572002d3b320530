package import Bytes
import Glibc
import HTTP
package import Observability
package import Patterns
import TLS
public import Transport

/// One event loop's share of the proxy: its listeners, clients and upstream connections. Lives on its loop.
public final class Worker {
  public let loop: EventLoop
  public let budget: ConnectionBudget
  /// The limit of open files leaves this worker fewer connections than `worker_connections`.
  let lacksDescriptors: Bool
  public let metrics: Metrics
  package let traffic: WorkerTraffic
  package let counters: WorkerCounters
  /// nil but for `sallyport check --explain`.
  package let trace: ExplainTrace?
  package let shared: SharedState
  package private(set) var live: LiveGeneration?
  package private(set) var isDraining = false
  package let clock = ClockText()
  package let ownFields: OwnFields
  /// A buffer for text that is built and used within one call.
  @exclusivity(unchecked) package var scratch = ByteBuffer()
  @exclusivity(unchecked) package var randomWords = RandomWords()
  /// The buffer into which an HTTP/2 connection reads. No bytes are left in it between two reads.
  @exclusivity(unchecked) package var input = ByteBuffer()
  let http2Line: HTTP2Line
  /// Request bodies that are kept in memory, 32 MiB in all.
  package let bodies = BodyMemoryBudget(limit: 32 << 20)
  /// Responses that wait in streams of HTTP/2, in a rate or for their compression, and slices of files that are read. Above
  /// 32 MiB, files are read in small slices.
  package let responses = BodyMemoryBudget(limit: 32 << 20)
  /// Sessions of `stream` that keep their buffers, 68 KiB each with TLS on both sides.
  package var busySessions = 0
  package static let mostBusySessions = 256
  /// When clients and upstreams are to be judged again.
  var admissionEnds = AdmissionEnds()
  /// Streams of HTTP/2 that are open.
  package var streams = PeakCount()
  package let patternScratch = RegularExpression.Scratch()
  private var listeners: WorkerListeners?
  package private(set) lazy var handshakes = HandshakeQueue(self)
  private var memoryReturn = MemoryReturn()
  package private(set) lazy var placeQueue = PlaceQueue(self)
  /// Milliseconds that somebody waits for a place under `worker_connections`.
  package var queueTimeout: Int { live?.generation.http.clientLimits.queueTimeout ?? 0 }
  package private(set) var sessions: [ObjectIdentifier: ClientSession] = [:]
  /// How many of them are of `stream`.
  private(set) var streamSessions = 0
  /// Earlier generations that still have clients.
  package private(set) var leaving: [LiveGeneration] = []
  /// What features keep in this worker.
  package private(set) lazy var parts = WorkerParts(self)
  package var shortage = ConnectionShortage()
  /// Clients whose handshake isn't over.
  private var opening = 0
  /// Exchanges that haven't begun their first attempt at an upstream.
  private var expecting = 0
  private var exchanges: [Exchange] = []
  private var nextNumber: UInt64
  private var drained: (@Sendable () -> Void)?
  /// Whoever `endPresent` waits for, and what it calls then.
  private var present: Set<ObjectIdentifier> = []
  private var presentEnded: (@Sendable () -> Void)?
  private var logTicker: LogTicker?

  private static let exchangesKept = 64

  /// `metrics` and `shared`: those of all workers. `wanted`: `worker_connections`, where the limit of open files leaves
  /// fewer `connections`. `trace`: only for `sallyport check --explain`.
  package init(
    loop: EventLoop, connections: Int, wanted: Int? = nil, metrics: Metrics, shared: SharedState,
    trace: ExplainTrace? = nil
  ) {
    lacksDescriptors = connections < wanted ?? connections
    self.trace = trace
    self.loop = loop
    self.shared = shared
    self.http2Line = HTTP2Line(loop: loop)
    self.ownFields = OwnFields(clock)
    self.metrics = metrics
    self.traffic = metrics.traffic.addWorker()
    self.counters = metrics.addWorker(loop.index)
    self.budget = ConnectionBudget(limit: connections)
    // Each worker has its own range of numbers, so that a number in the log identifies one connection.
    self.nextNumber = UInt64(loop.index) &* 1_000_000_000_000 &+ 1
    shared.workers.add(self)
    budget.makeRoom = { [unowned self] in makeRoom() }
    budget.didFree = { [unowned self] in
      placeQueue.connectionDidFree()
      listeners?.roomDidGrow()
    }
  }

  /// Serves a generation from now on. New connections belong to it; those of the previous generation move or end when
  /// they are idle. `failed` gets the error of a socket that can't listen. `patience`: after so many milliseconds, the
  /// connections that are left of the previous generation are cut (`worker_shutdown_timeout`); 0 leaves them.
  ///
  /// A worker that drains listens on nothing, and judges the clients of its connections by this generation.
  public func serve(
    _ generation: Generation, sockets: [ListenerSocket], patience: Int = 0, failed: (SocketError) -> Void
  ) {
    // It has closed its last generation.
    if isDraining, hasDrained { return }
    let old = live
    let fresh = LiveGeneration(generation, self)
    fresh.meter(counters)
    live = fresh
    for part in fresh.parts.all { part.open() }
    if logTicker == nil { logTicker = LogTicker(worker: self) }
    for part in parts.all { part.serve(fresh) }
    let listeners = listeners ?? WorkerListeners(self)
    self.listeners = listeners
    handshakes.apply(generation.http.clientLimits.handshakes)
    if !isDraining { listeners.serve(sockets, patience: generation.http.clientLimits.queueTimeout, failed) }
    guard let old else { return }
    leaving.append(old)
    // Each spare exchange holds the location that it served last, and so a whole generation.
    exchanges.removeAll()
    // Busy sessions stay in their generation, so those of every earlier one are judged by this one.
    for session in Array(sessions.values) where session.live !== fresh { session.move(to: fresh) }
    if patience > 0, old.clients > 0 {
      old.shutdown = loop.after(patience) { [unowned self, weak old] in if let old { cut(clientsOf: old) } }
    }
    endLeaving()
  }

  /// Cuts every connection of a previous generation.
  fileprivate func cut(clientsOf old: LiveGeneration) {
    for session in Array(sessions.values) where session.live === old { session.cut() }
    for part in parts.all { part.cut(of: old) }
  }

  package var room: ConnectionRoom {
    ConnectionRoom(limit: budget.limit, used: budget.used, opening: opening, expecting: expecting)
  }

  /// Takes over a new client. Returns false if it was refused, because there is no place.
  ///
  /// `passes`: how many listeners have given the connection on (`pass`).
  package func accepted(_ descriptor: Int32, _ peer: SocketAddress, listener: Int, passes: Int = 0) -> Bool {
    traffic.didAccept()
    guard let live, live.listeners.indices.contains(listener) else {
      Sockets.refuse(descriptor)
      return false
    }
    let servers = live.listeners[listener]
    guard servers.isForOperators ? budget.takeReserved() : budget.take() else {
      Sockets.refuse(descriptor)
      return false
    }
    if peer.port != nil {
      Sockets.setNoDelay(descriptor)
      Sockets.apply(servers.settings.options.keepalive, to: descriptor)
    }
    do {
      if servers.settings.isTLS {
        let stream = try TLSStream(accepting: descriptor, loop: loop, chooser: servers)
        begin(over: stream, tls: stream, servers, peer, passes)
      } else {
        let stream = try ByteStream(loop: loop, descriptor: descriptor, isConnecting: false)
        begin(over: stream, tls: nil, servers, peer, passes)
      }
    } catch {
      budget.giveBack()
      live.generation.errorLog.alert("\(error)")
    }
    return true
  }

  /// Takes over a client that was accepted from a socket of before, in place of which a listener of this generation has
  /// its address.
  public func takeOver(_ descriptor: Int32, from peer: SocketAddress, listener: Int) {
    guard !isDraining, let listeners else { return Sockets.refuse(descriptor) }
    listeners.take(descriptor, peer, listener)
  }

  /// Takes over a connection that another listener has opened (`pass`). `client`: how the client came in there.
  package func takeOver(
    _ transport: ByteStream, _ peer: SocketAddress, listener: Int, passes: Int, _ client: PassedClient?
  ) {
    guard let live, live.listeners.indices.contains(listener), budget.take() else {
      return transport.close()
    }
    traffic.didAccept()
    guard let session = session(over: transport, tls: nil, live.listeners[listener], peer, passes, client) else {
      return
    }
    session.beginOpened()
    transport.resumeReading()
  }

  private func begin(
    over transport: ByteStream, tls: TLSStream?, _ servers: VirtualServers, _ peer: SocketAddress, _ passes: Int
  ) {
    session(over: transport, tls: tls, servers, peer, passes)?.begin()
  }

  private func session(
    over transport: ByteStream, tls: TLSStream?, _ servers: VirtualServers, _ peer: SocketAddress, _ passes: Int,
    _ passed: PassedClient? = nil
  ) -> ClientSession? {
    guard let live else { return nil }
    let session = ClientSession(
      worker: self, live: live, servers: servers, transport: transport, tls: tls, peer: peer, number: nextNumber,
      passes: passes, passed: passed)
    nextNumber &+= 1
    sessions[ObjectIdentifier(session)] = session
    if servers.settings.kind == .stream { streamSessions += 1 }
    live.clients += 1
    traffic.didHandle()
    opening += 1
    return session
  }

  /// A client's handshake is over, or its connection has ended before.
  func openingDidEnd() {
    opening -= 1
    listeners?.roomDidGrow()
  }

  package func exchangeExpectsUpstream() { expecting += 1 }

  /// The exchange has begun its first attempt, or has ended without one.
  package func expectationDidEnd() {
    expecting -= 1
    listeners?.roomDidGrow()
  }

  func didClose(_ session: ClientSession) {
    let identity = ObjectIdentifier(session)
    guard sessions.removeValue(forKey: identity) != nil else { return }
    if presentEnded != nil, present.remove(identity) != nil { endPresentIfGone() }
    if session.servers.settings.kind == .stream { streamSessions -= 1 }
    budget.giveBack()
    traffic.didClose(session.state)
    session.live.clients -= 1
    didLoseClient()
  }

  /// A client's connection, or what else holds a generation, has ended.
  package func didLoseClient() {
    if !leaving.isEmpty { endLeaving() }
    if isDraining && hasDrained { finishDraining() }
  }

  private var hasDrained: Bool { sessions.isEmpty && !parts.all.contains { $0.isBusy } }

  /// Ends connections that can be spared, at the limit of `worker_connections`.
  package func makeRoom() {
    guard shortage.maySearch(now: loop.now) else { return }
    let ended = endLeastWanted()
    shortage.didSearch(now: loop.now, ended: ended)
    if ended > 0 { tellShortage(.reuse) }
  }

  /// Logs a fault of no request that lasts until an operator repairs it: once, and then in summary.
  package func tellOfRepeated(_ level: LogLevel, _ text: String) {
    guard let log = live?.generation.errorLog else { return }
    if shared.faults.note(text, about: "", .none, level, log, now: loop.now).writes { log.log(level, text) }
  }

  private func endLeaving() {
    leaving.removeAll { old in
      guard old.clients == 0 else { return false }
      dropSparesLater()
      old.shutdown?.cancel()
      old.close()
      shared.memory.generationEnded()
      return true
    }
  }

  // MARK: Ends

  /// Judges the clients again whose admission has ended, and ends those that are refused now.
  fileprivate func endAdmissions() {
    let now = Int64(time(nil))
    guard admissionEnds.areDue(at: now) else { return }
    let due = sessions.values.filter { $0.judgementEnd <= now }
    for session in due.prefix(AdmissionEnds.batch) { session.judgementDidEnd(at: now) }
    guard due.count <= AdmissionEnds.batch else {
      // Other events have their turn before the rest.
      let box = LoopBox(self)
      return loop.post { box.value.endAdmissions() }
    }
    admissionEnds = AdmissionEnds(sessions.values.lazy.map(\.judgementEnd))
  }

  /// Accepts no more connections, waits for exchanges to end, and then calls `drained` once (QUIT).
  public func drain(_ drained: @escaping @Sendable () -> Void) {
    guard !isDraining else { return }
    isDraining = true
    (presentEnded, present) = (nil, [])
    self.drained = drained
    listeners?.stop()
    for part in parts.all { part.drain() }
    for session in Array(sessions.values) { session.drain() }
    if hasDrained { finishDraining() }
  }

  /// Lets the connections that are open end with what they have in progress, and serves new clients meanwhile. Calls `ended`
  /// once all of those have ended, unless the worker drains before.
  ///
  /// For a process whose listening sockets stay open for the next one (systemd's store): nobody else would accept from them
  /// until this process has ended, and a WebSocket may take its time.
  public func endPresent(_ ended: @escaping @Sendable () -> Void) {
    guard !isDraining, presentEnded == nil else { return }
    presentEnded = ended
    present = Set(sessions.keys)
    // Who has sent nothing yet may be silent for long.
    for session in Array(sessions.values) where !session.askToLeave() { present.remove(ObjectIdentifier(session)) }
    endPresentIfGone()
  }

  /// Leaves new clients in the queues of the sockets until `resumeAccepting`.
  public func pauseAccepting() { listeners?.pause() }
  public func resumeAccepting() { listeners?.resumeAfterPause() }

  /// A client that was asked to leave before the end of its handshake makes its requests now.
  func didBeginLate(_ session: ClientSession) {
    if presentEnded != nil { present.insert(ObjectIdentifier(session)) }
  }

  private func endPresentIfGone() {
    guard present.isEmpty, let ended = presentEnded else { return }
    presentEnded = nil
    ended()
  }

  private func finishDraining() {
    live?.close()
    logTicker?.stop()
    tellOfFolded(isLast: true)
    drained?()
    drained = nil
  }

  /// Cuts every connection (TERM, or the end of `worker_shutdown_timeout`).
  public func stopAtOnce() {
    isDraining = true
    (presentEnded, present) = (nil, [])
    listeners?.stop()
    for part in parts.all { part.drain() }
    for session in Array(sessions.values) { session.cut() }
    for part in parts.all { part.cut(of: nil) }
    finishDraining()
  }

  /// Writes buffered lines of access logs, before the files are reopened and at the end.
  public func flushLogs() {
    for part in parts.all { part.flush() }
    for live in generations { for part in live.parts.all { part.flush() } }
  }

  fileprivate func tickParts() {
    for part in parts.all { part.tick(now: loop.now) }
    for live in generations { for part in live.parts.all { part.tick(now: loop.now) } }
  }

  private var generations: [LiveGeneration] { [live].compactMap { $0 } + leaving }

  // MARK: Exchanges are used again: a request allocates none

  package func takeExchange() -> Exchange { exchanges.popLast() ?? Exchange(worker: self) }

  package func giveBack(_ exchange: Exchange) {
    exchange.reset()
    // Whoever ends within its own call must outlive it: what is too many goes with the next tick.
    exchanges.append(exchange)
  }

  /// Each remembers the location it served last, and with it a generation. Not within a call: the exchange that ends may be
  /// among them.
  private func dropSparesLater() {
    let box = LoopBox(self)
    loop.post { box.value.exchanges.removeAll() }
  }

  /// Gives up the spares beyond a bound. Between two events only.
  func trimSpares() {
    if exchanges.count > Self.exchangesKept { exchanges.removeLast(exchanges.count - Self.exchangesKept) }
  }

  /// Gives memory back to the system after many connections or streams have ended.
  fileprivate func returnMemory() {
    let (count, peak) = (budget.used + streams.count, budget.takeMost() + streams.takeMost())
    guard memoryReturn.isDue(count: count, peak: peak, now: loop.now) else { return }
    if shared.pool.run(.memory, for: "", MemoryTrimmer.trim).isTaken { counters.limits.count(.memoryReturned) }
  }
}

/// Hands over old lines of a worker's access logs once a second. That of the first worker also writes the summaries of folded lines.
final class LogTicker: EventTarget {
  private unowned let worker: Worker
  private var dueAt: UInt64

  init(worker: Worker) {
    self.worker = worker
    dueAt = worker.loop.now &+ 1000
    super.init(loop: worker.loop)
    setDeadline(in: 1000)
  }

  override func deadlinePassed() {
    worker.tickParts()
    worker.tellOfFolded()
    worker.trimSpares()
    worker.endAdmissions()
    worker.sample(dueAt: dueAt)
    worker.handshakes.endOverdue()
    worker.returnMemory()
    setDeadline(in: 1000)
    dueAt = loop.now &+ 1000
  }

  func stop() { loop.forgetDeadline(of: self) }
}

extension Sockets {
  /// `so_keepalive` of a listen directive.
  package static func apply(_ keepalive: TCPKeepalive?, to descriptor: Int32) {
    switch keepalive {
    case nil: break
    case .on: setKeepalive(descriptor, on: true, idle: nil, interval: nil, count: nil)
    case .off: setKeepalive(descriptor, on: false, idle: nil, interval: nil, count: nil)
    case .parameters(let idle, let interval, let count):
      setKeepalive(descriptor, on: true, idle: idle, interval: interval, count: count)
    }
  }
}
