import Dispatch
import Synchronization

/// Work that waits (files, responders), done beside the loops: on a few threads, with a bound on what stands in line.
public final class BlockingWork: Sendable {
  private struct State {
    /// By lane, what waits there or is done.
    var lanes: [Int]
    var waiting: Int { lanes.reduce(0, +) }
  }

  private let queues: [DispatchQueue]
  private let limit: Int
  private let state: Mutex<State>

  /// `lanes`: what is done at the same time. `limit`: what may wait, or is done.
  public init(_ label: String, lanes: Int, limit: Int) {
    queues = (0..<max(1, lanes)).map { DispatchQueue(label: "sallyport.\(label).\($0)") }
    self.limit = limit
    state = Mutex(State(lanes: queues.map { _ in 0 }))
  }

  /// Nothing waits, and nothing is being done.
  var isIdle: Bool { state.withLock { $0.waiting == 0 } }

  /// False, and nothing happens, when too much waits already.
  public func run(_ body: @escaping @Sendable () -> Void) -> Bool {
    let lane = state.withLock { state -> Int? in
      guard state.waiting < limit, let lane = state.lanes.indices.min(by: { state.lanes[$0] < state.lanes[$1] })
      else { return nil }
      state.lanes[lane] += 1
      return lane
    }
    guard let lane else { return false }
    queues[lane].async { [self] in
      body()
      state.withLock { $0.lanes[lane] -= 1 }
    }
    return true
  }
}

/// Work that waits for somebody: each of them has lanes and a line of its own, so that who is silent holds up nobody who
/// waits for another.
///
/// Bounded whoever names them: `parties × lanes` threads, `parties × limit` waiting.
public final class BlockingParties<Party: Hashable & Sendable>: Sendable {
  private let label: String
  private let parties: Int
  private let lanes: Int
  private let limit: Int
  private let works = Mutex<[Party: BlockingWork]>([:])

  /// `parties`: those that there may be work of at the same time. `lanes` and `limit`: of each.
  public init(_ label: String, parties: Int, lanes: Int, limit: Int) {
    self.label = label
    self.parties = parties
    self.lanes = lanes
    self.limit = limit
  }

  /// False, and nothing happens, when too much of this party waits already, or there is work of too many others.
  public func run(for party: Party, _ body: @escaping @Sendable () -> Void) -> Bool {
    works.withLock { works in
      if let work = works[party] { return work.run(body) }
      if works.count >= parties { works = works.filter { !$0.value.isIdle } }
      guard works.count < parties else { return false }
      let work = BlockingWork(label, lanes: lanes, limit: limit)
      works[party] = work
      return work.run(body)
    }
  }
}
