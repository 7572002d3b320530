import Observability
package import Transport

/// The attempts of one worker that wait for a place under `worker_connections`, in the order in which they came.
///
/// They go before new clients, which are accepted only when a place is left for each exchange here (`ConnectionRoom`).
package final class PlaceQueue: EventTarget {
  private unowned let worker: Worker
  private var waiting: [PlaceWait] = []
  /// Milliseconds between two looks whether a connection may be ended by now.
  private static let pause = 50

  package init(_ worker: Worker) {
    self.worker = worker
    super.init(loop: worker.loop)
  }

  package func add(_ wait: PlaceWait) {
    if waiting.isEmpty { setDeadline(in: Self.pause) }
    waiting.append(wait)
    worker.counters.limits.count(.attemptWaited)
  }

  package func remove(_ wait: PlaceWait) {
    waiting.removeAll { $0 === wait }
    if waiting.isEmpty { setDeadline(in: nil) }
  }

  /// A place has become free, or a connection to an upstream can be used again.
  package func connectionDidFree() {
    guard let first = waiting.first else { return }
    // Not within this call, which may come from anywhere.
    loop.again(first)
  }

  package override func deadlinePassed() {
    guard !waiting.isEmpty else { return }
    if worker.budget.used >= worker.budget.limit { worker.makeRoom() }
    for wait in waiting.prefix(max(0, worker.budget.limit - worker.budget.used)) { loop.again(wait) }
    setDeadline(in: Self.pause)
  }

  package func stop() { loop.forgetDeadline(of: self) }
}

/// One attempt that waits for a place: until there is one, or for `client_queue_timeout`.
package final class PlaceWait: EventTarget {
  private let queue: PlaceQueue
  private let resume: () -> Void
  private let giveUp: () -> Void

  /// `patience`: milliseconds, after which the wait calls `giveUp` in place of `resume`.
  package init(
    _ queue: PlaceQueue, patience: Int, resume: @escaping () -> Void, giveUp: @escaping () -> Void
  ) {
    self.queue = queue
    self.resume = resume
    self.giveUp = giveUp
    super.init(loop: queue.loop)
    queue.add(self)
    setDeadline(in: patience)
  }

  package override func again() {
    guard !isStopped else { return }
    resume()
  }

  package override func deadlinePassed() { giveUp() }

  private var isStopped = false

  package func stop() {
    guard !isStopped else { return }
    isStopped = true
    queue.remove(self)
    loop.forgetDeadline(of: self)
  }
}
