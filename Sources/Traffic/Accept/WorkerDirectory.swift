import Synchronization
package import Transport

/// The workers of the process: what one of them is asked about all clients, each answers on its own loop.
package final class WorkerDirectory: Sendable {
  private struct Entry: Sendable {
    let loop: EventLoop
    let worker: LoopBox<WeakWorker>
  }

  private final class WeakWorker {
    weak var worker: Worker?
    init(_ worker: Worker) { self.worker = worker }
  }

  private let entries = Mutex<[Entry]>([])

  package func add(_ worker: Worker) {
    let entry = Entry(loop: worker.loop, worker: LoopBox(WeakWorker(worker)))
    entries.withLock { $0.append(entry) }
  }

  /// Asks every worker, and gives the answers to `then` on this loop, later.
  package func ask<Value: Sendable>(
    from loop: EventLoop, _ question: @escaping @Sendable (Worker) -> Value, then: @escaping ([Value]) -> Void
  ) {
    let all = entries.withLock { $0 }
    let gathering = LoopBox(Gathering(all.count, then))
    for entry in all {
      entry.loop.post {
        let value = entry.worker.value.worker.map(question)
        loop.post { gathering.value.take(value) }
      }
    }
  }

  private final class Gathering<Value> {
    private var missing: Int
    private var values: [Value] = []
    private let then: ([Value]) -> Void

    init(_ count: Int, _ then: @escaping ([Value]) -> Void) {
      missing = count
      self.then = then
    }

    func take(_ value: Value?) {
      if let value { values.append(value) }
      missing -= 1
      if missing == 0 { then(values) }
    }
  }
}
