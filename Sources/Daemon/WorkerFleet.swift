import Dispatch
import Traffic
import Transport

/// The workers, each on its loop, and the main queue's way to reach them all.
struct WorkerFleet: Sendable {
  private let workers: [LoopConfined<Worker>]
  let metrics = Metrics()

  var count: Int { workers.count }

  /// Makes and starts the loops. Each loop makes its worker first. `connections`: how many each worker may hold, where the
  /// configuration says `wanted`.
  init(count: Int, connections: Int, wanted: Int? = nil, shared: SharedState) throws(SocketError) {
    var workers: [LoopConfined<Worker>] = []
    let metrics = metrics
    for index in 0..<count {
      let loop = try EventLoop(index: index)
      workers.append(
        LoopConfined(on: loop) {
          Worker(loop: $0, connections: connections, wanted: wanted, metrics: metrics, shared: shared)
        })
    }
    self.workers = workers
    for worker in workers { worker.loop.start { _ in } }
  }

  /// Runs a block with each worker on its loop, then `done` on the main queue once all have run.
  func each(
    _ body: @escaping @Sendable (_ index: Int, Worker) -> Void, then done: @escaping @MainActor @Sendable () -> Void
  ) {
    eachUntil(
      { index, worker, finished in
        body(index, worker)
        finished()
      }, then: done)
  }

  /// Gives a client to a worker, by its number. `listener`: of the generation that the worker has by now.
  func hand(_ client: WaitingConnection, to worker: Int, _ listener: Int) {
    workers[worker].run { $0.takeOver(client.descriptor, from: client.peer, listener: listener) }
  }

  /// Calls `answered` on the main queue for each of these workers whose loop runs.
  func ask(_ indices: [Int], answered: @escaping @MainActor @Sendable (Int) -> Void) {
    for index in indices where workers.indices.contains(index) {
      workers[index].run { _ in DispatchQueue.main.async { MainActor.assumeIsolated { answered(index) } } }
    }
  }

  /// Like `each`, for work that continues after the block: `body` calls `finished` once when it is done.
  func eachUntil(
    _ body: @escaping @Sendable (_ index: Int, Worker, _ finished: @escaping @Sendable () -> Void) -> Void,
    then done: @escaping @MainActor @Sendable () -> Void
  ) {
    let group = DispatchGroup()
    for (index, worker) in workers.enumerated() {
      group.enter()
      worker.run { body(index, $0) { group.leave() } }
    }
    group.notify(queue: .main) { MainActor.assumeIsolated { done() } }
  }
}
