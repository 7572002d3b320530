/// What a feature keeps in one worker, over generations: a buffer, running subrequests, health checks. Lives on the worker's
/// loop. It must let go of a generation when the next one serves, and must bound its size.
open class WorkerPart {
  /// The worker holds the part, and outlives it.
  package final unowned let worker: Worker

  public required init(_ worker: Worker) { self.worker = worker }

  /// This generation serves from now on. A worker that drains serves one, too, to judge the clients that it still has.
  open func serve(_ live: LiveGeneration) {}
  /// About each second. `now`: milliseconds of the loop's clock.
  open func tick(now: UInt64) {}
  /// Log files are reopened, or the process ends: what waits to be written is handed over.
  open func flush() {}
  /// The connections of a previous generation are cut; nil: those of all.
  open func cut(of live: LiveGeneration?) {}
  /// The worker accepts nobody any more, and waits for what is in progress.
  open func drain() {}
  /// The part has work in progress, for which a worker that drains must wait.
  open var isBusy: Bool { false }
}

/// The parts of all features in one worker, found by their types.
package final class WorkerParts {
  private var parts: [ObjectIdentifier: WorkerPart] = [:]
  /// In the order of `Features.all`.
  package private(set) var all: [WorkerPart] = []

  package init(_ worker: Worker) {
    for kind in worker.shared.features.all.flatMap({ $0.workerParts }) { add(kind.init(worker)) }
  }

  private func add(_ part: WorkerPart) {
    parts[ObjectIdentifier(type(of: part))] = part
    all.append(part)
  }

  /// The feature's part, which is made now if the feature doesn't name it in its `workerParts`.
  package func part<Part: WorkerPart>(_ kind: Part.Type, _ worker: Worker) -> Part {
    if let known = parts[ObjectIdentifier(kind)] as? Part { return known }
    let fresh = kind.init(worker)
    add(fresh)
    return fresh
  }
}

extension Worker {
  /// What a feature keeps in this worker.
  package subscript<Part: WorkerPart>(_ kind: Part.Type) -> Part { parts.part(kind, self) }
}
