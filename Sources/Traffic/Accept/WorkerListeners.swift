import Observability
import Transport

/// The listening sockets of one worker. While the worker has no place for another client, it doesn't accept, so that new
/// clients wait in the queues of the sockets (`listen … backlog=`).
///
/// A socket that all workers share is served by the others meanwhile. With `reuseport`, the clients that the kernel has
/// assigned to this worker wait for it.
final class WorkerListeners: EventTarget {
  private unowned let worker: Worker
  private var acceptors: [SocketAcceptor] = []
  /// Those of listeners for operators, which accept as long as one of the places is left that are kept for them.
  private var reserved: [SocketAcceptor] = []
  private var queue = AcceptQueue(patience: 0)
  private var isWaiting = false
  private var isPaused = false
  private var isStopped = false
  /// Milliseconds between two looks whether a connection may be ended by now.
  private static let lookInterval = 50

  init(_ worker: Worker) {
    self.worker = worker
    super.init(loop: worker.loop)
  }

  /// Serves these sockets from now on. `patience`: milliseconds (`client_queue_timeout`). `failed` gets the error of a
  /// socket that can't listen.
  func serve(_ sockets: [ListenerSocket], patience: Int, _ failed: (SocketError) -> Void) {
    queue = AcceptQueue(patience: UInt64(max(0, patience)))
    for acceptor in acceptors + reserved { acceptor.stop() }
    acceptors = acceptors(of: sockets.filter { !isForOperators($0) }) { [unowned self] in mayAccept() }
    reserved = acceptors(of: sockets.filter(isForOperators)) { true }
    isWaiting = false
    if !isPaused { start(failed) }
  }

  private func isForOperators(_ socket: ListenerSocket) -> Bool {
    guard let live = worker.live, live.listeners.indices.contains(socket.listener) else { return false }
    return live.listeners[socket.listener].isForOperators
  }

  private func acceptors(of sockets: [ListenerSocket], _ mayAccept: @escaping () -> Bool) -> [SocketAcceptor] {
    sockets.map { socket in
      SocketAcceptor(
        loop: loop, descriptor: socket.descriptor, isShared: socket.isShared, mayAccept: mayAccept,
        accepted: { [unowned self] in take($0, $1, socket.listener) },
        exhausted: { [unowned self] error in worker.tellOfRepeated(.crit, "\(error)") })
    }
  }

  private func start(_ failed: (SocketError) -> Void) {
    for acceptor in acceptors + reserved {
      do { try acceptor.start() } catch { failed(error) }
    }
  }

  /// Stops for good; connections in the queues stay for other workers and processes.
  func stop() {
    isStopped = true
    isWaiting = false
    for acceptor in acceptors + reserved { acceptor.stop() }
    loop.forgetDeadline(of: self)
  }

  /// Leaves clients in the queues for a while.
  func pause() {
    isPaused = true
    isWaiting = false
    for acceptor in acceptors + reserved { acceptor.stop() }
    setDeadline(in: nil)
  }

  func resumeAfterPause() {
    guard isPaused else { return }
    isPaused = false
    if !isStopped { resume() }
  }

  private func mayAccept() -> Bool {
    // No connection is ended for a client that doesn't wait: the last one of this event may have been accepted.
    if worker.room.vacancy != .free {
      guard isAwaited else { return true }
      worker.makeRoom()
    }
    guard queue.answer(worker.room.vacancy, now: loop.now) == .wait else { return true }
    worker.counters.limits.count(.clientsWaited)
    worker.tellShortage(.wait)
    isWaiting = true
    for acceptor in acceptors { acceptor.stop() }
    setDeadline(in: Self.lookInterval)
    return false
  }

  private var isAwaited: Bool { acceptors.contains(where: \.isAwaited) }

  /// Serves a client that was accepted, or refuses it where there is no place.
  func take(_ descriptor: Int32, _ peer: SocketAddress, _ listener: Int) {
    if worker.accepted(descriptor, peer, listener: listener) { return }
    worker.counters.limits.count(.clientRefused)
    worker.tellShortage(.refuse)
  }

  /// A place has become free, or is no longer promised.
  func roomDidGrow() { if isWaiting, worker.room.vacancy == .free { resume() } }

  /// Clients have waited for too long, or connections may have become old enough to be ended.
  override func deadlinePassed() {
    guard isWaiting, !isStopped else { return }
    guard isAwaited else { return resume() }
    if worker.room.vacancy != .free { worker.makeRoom() }
    guard queue.answer(worker.room.vacancy, now: loop.now) == .wait else { return resume() }
    setDeadline(in: Self.lookInterval)
  }

  private func resume() {
    isWaiting = false
    setDeadline(in: nil)
    start { error in worker.live?.generation.errorLog.alert("\(error)") }
  }
}
