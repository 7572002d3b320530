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
    var busy = 0
    var last: UInt64 = 0

    /// nil: nothing waits, and a thread less is busy.
    mutating func next() -> Job? {
      guard let party = turns.first, var line = lines[party], !line.isEmpty else {
        busy -= 1
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

  private let queue: DispatchQueue
  private let lanes: Int
  private let limit: Int
  private let partyLimit: Int
  private let state = Mutex(State())

  /// `lanes`: what is done at the same time. `limit` and `partyLimit`: what may wait, of all and of one.
  public init(_ label: String, lanes: Int, limit: Int, partyLimit: Int) {
    queue = DispatchQueue(label: "sallyport.\(label)", attributes: .concurrent)
    self.lanes = max(1, lanes)
    self.limit = limit
    self.partyLimit = partyLimit
  }

  public func run(for party: Party, _ body: @escaping @Sendable () -> Void) -> Outcome {
    let (outcome, wakes) = state.withLock { state -> (Outcome, Bool) in
      guard state.waiting < limit else { return (.full, false) }
      guard state.lines[party]?.count ?? 0 < partyLimit else { return (.partyIsFull, false) }
      state.last &+= 1
      let job = Job(number: state.last, body: body)
      if state.lines[party] == nil { state.turns.append(party) }
      state.lines[party, default: []].append(job)
      state.waiting += 1
      let wakes = state.busy < lanes
      if wakes { state.busy += 1 }
      return (.taken(Ticket(party: party, number: job.number), waits: !wakes), wakes)
    }
    if wakes { queue.async { [self] in while let job = state.withLock({ $0.next() }) { job.body() } } }
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
  package var isIdle: Bool { state.withLock { $0.waiting == 0 && $0.busy == 0 } }

  /// What waits for this party.
  package func waiting(for party: Party) -> Int { state.withLock { $0.lines[party]?.count ?? 0 } }
}
