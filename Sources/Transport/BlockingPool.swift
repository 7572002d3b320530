import CLinux
import Dispatch
import Synchronization

/// Work that blocks (files, names, responders, password hashes), done beside the event loops.
///
/// Work is keyed by its class and by a party of that class. The bounds are `BlockingWork.limits`: a class never waits for
/// another class, and within a class the parties take turns. The daemon has one pool for its whole life.
public final class BlockingPool: Sendable {
  public enum Submission: Sendable {
    /// `waits`: all lanes are busy with other work.
    case taken(Ticket, waits: Bool)
    /// Too much of this party waits already.
    case partyIsFull
    /// Too much of all parties waits already.
    case full

    public var isTaken: Bool { if case .taken = self { true } else { false } }
  }

  /// Names a job that was taken, so that it can be withdrawn.
  public struct Ticket: Sendable, Hashable {
    public let work: BlockingWork
    let party: String
    let number: UInt64
  }

  private typealias Job = @Sendable () -> Void

  private struct Class: Sendable {
    var state: BlockingQueueState<Job>
    /// By lane. Dispatch gives each serial queue a thread at once, however many threads wait in other queues; a
    /// concurrent queue would share a bounded set of threads with the rest of the process.
    var queues: [Int: DispatchQueue] = [:]
  }

  private let classes: Mutex<[BlockingWork: Class]>

  public convenience init() { self.init { $0.limits } }

  /// With other bounds: for tests.
  init(_ limits: (BlockingWork) -> BlockingLimits) {
    let all = BlockingWork.allCases.map { ($0, Class(state: BlockingQueueState(limits($0)))) }
    classes = Mutex(Dictionary(all, uniquingKeysWith: { first, _ in first }))
  }

  /// Does `body` on a thread of its class. Nothing happens when the outcome is not `taken`.
  public func run(_ work: BlockingWork, for party: String, _ body: @escaping @Sendable () -> Void) -> Submission {
    let (outcome, begun) = classes.withLock { classes -> (Submission, (queue: DispatchQueue, lane: Int)?) in
      switch classes[work]?.state.submit(body, for: party) {
      case .begins(let lane, let number):
        let queue = classes[work]?.queues[lane] ?? DispatchQueue(label: "sallyport.\(work.rawValue).\(lane)")
        classes[work]?.queues[lane] = queue
        return (.taken(Ticket(work: work, party: party, number: number), waits: false), (queue, lane))
      case .waits(let number): return (.taken(Ticket(work: work, party: party, number: number), waits: true), nil)
      case .partyIsFull: return (.partyIsFull, nil)
      case .full, nil: return (.full, nil)
      }
    }
    if let begun {
      // Dispatch keeps the block, and so a job of it, until the lane has no more to do.
      let first = Mutex<Job?>(body)
      begun.queue.async { [self] in
        linux_name_thread("sp-\(work.rawValue)")
        first.withLock { $0.take() }?()
        while let next = finished(work, lane: begun.lane) { next() }
      }
    }
    return outcome
  }

  /// Takes back a job that still waits. A job that has begun goes on. Returns whether the job waited.
  @discardableResult
  public func withdraw(_ ticket: Ticket) -> Bool {
    // What the job holds is dropped without the lock: a body's file is then closed by another job.
    let job = classes.withLock { $0[ticket.work]?.state.withdraw(ticket.number, of: ticket.party) }
    return job != nil
  }

  private func finished(_ work: BlockingWork, lane: Int) -> Job? {
    classes.withLock { $0[work]?.state.finished(lane: lane) }
  }

  /// No job of this class waits, and none is being done.
  package func isIdle(_ work: BlockingWork) -> Bool { classes.withLock { $0[work]?.state.isIdle ?? true } }

  /// Jobs of this party that wait.
  package func waiting(_ work: BlockingWork, for party: String) -> Int {
    classes.withLock { $0[work]?.state.waiting(for: party) ?? 0 }
  }
}
