import Dispatch
import Synchronization

/// Work for the processor that others ask for, done beside the loops on a few threads: in turns, so that who asks for much
/// waits behind himself, with a bound on what waits for each and for all, and taken back when nobody wants it any more.
public final class FairWork<Party: Hashable & Sendable>: Sendable {
  public enum Outcome: Sendable {
    /// `waits`: others are being served.
    case taken(Ticket, waits: Bool)
    /// This party has too much waiting.
    case partyIsFull
    /// All together have.
    case full
  }

  /// By which what waits is taken back.
  public struct Ticket: Sendable, Hashable {
    let party: Party
    let number: UInt64
  }

  private struct Job {
    let number: UInt64
    let body: @Sendable () -> Void
  }

  private struct State {
    /// None is empty.
    var lines: [Party: [Job]] = [:]
    /// Who has a line; whose turn it is stands first.
    var turns: [Party] = []
    var waiting = 0
    /// Lanes that do nothing.
    var free: [Int]
    var last: UInt64 = 0

    /// nil: nothing waits, and this lane is free.
    mutating func next(for lane: Int) -> Job? {
      guard let party = turns.first, var line = lines[party], !line.isEmpty else {
        free.append(lane)
        return nil
      }
      let job = line.removeFirst()
      waiting -= 1
      turns.removeFirst()
      lines[party] = line.isEmpty ? nil : line
      if !line.isEmpty { turns.append(party) }
      return job
    }
  }

  /// A serial queue a lane: Dispatch gives each of those a thread at once, whatever waits on the threads of other work.
  private let queues: [DispatchQueue]
  private let limit: Int
  private let partyLimit: Int
  private let state: Mutex<State>

  /// `lanes`: what is done at the same time. `limit` and `partyLimit`: what may wait, of all and of one.
  public init(_ label: String, lanes: Int, limit: Int, partyLimit: Int) {
    queues = (0..<max(1, lanes)).map { DispatchQueue(label: "sallyport.\(label).\($0)") }
    self.limit = limit
    self.partyLimit = partyLimit
    state = Mutex(State(free: Array(queues.indices)))
  }

  public func run(for party: Party, _ body: @escaping @Sendable () -> Void) -> Outcome {
    let (outcome, lane) = state.withLock { state -> (Outcome, Int?) in
      guard state.waiting < limit else { return (.full, nil) }
      guard state.lines[party]?.count ?? 0 < partyLimit else { return (.partyIsFull, nil) }
      state.last &+= 1
      let job = Job(number: state.last, body: body)
      if state.lines[party] == nil { state.turns.append(party) }
      state.lines[party, default: []].append(job)
      state.waiting += 1
      let lane = state.free.popLast()
      return (.taken(Ticket(party: party, number: job.number), waits: lane == nil), lane)
    }
    if let lane {
      queues[lane].async { [self] in while let job = state.withLock({ $0.next(for: lane) }) { job.body() } }
    }
    return outcome
  }

  /// What waits is not done any more; what is being done is.
  public func withdraw(_ ticket: Ticket) {
    state.withLock { state in
      guard var line = state.lines[ticket.party], let place = line.firstIndex(where: { $0.number == ticket.number })
      else { return }
      line.remove(at: place)
      state.waiting -= 1
      state.lines[ticket.party] = line.isEmpty ? nil : line
      if line.isEmpty { state.turns.removeAll { $0 == ticket.party } }
    }
  }

  /// Nothing waits, and nothing is being done.
  package var isIdle: Bool { state.withLock { $0.waiting == 0 && $0.free.count == queues.count } }

  /// What waits for this party.
  package func waiting(for party: Party) -> Int { state.withLock { $0.lines[party]?.count ?? 0 } }
}
