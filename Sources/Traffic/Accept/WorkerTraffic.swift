import Observability
import Synchronization

/// What one worker counts of its clients for `stub_status` and `$connections_…`.
///
/// Only the worker's own loop writes, so a count is a load and a store, and no worker waits for another's cache line.
/// Any loop reads.
package final class WorkerTraffic: Sendable {
  private let accepted = Atomic<UInt64>(0)
  private let handled = Atomic<UInt64>(0)
  private let closed = Atomic<UInt64>(0)
  private let begun = Atomic<UInt64>(0)
  private let ended = Atomic<UInt64>(0)
  private let headsBegun = Atomic<UInt64>(0)
  private let headsEnded = Atomic<UInt64>(0)
  private let states = CountRow(ClientState.allCases.count)

  @inline(__always)
  private func count(_ counter: borrowing Atomic<UInt64>) {
    counter.store(counter.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
  }

  func didAccept() { count(accepted) }
  /// The connection got a place, so the worker serves it.
  func didHandle() {
    count(handled)
    states.add(at: ClientState.handshake.rawValue)
  }
  func didClose(_ state: ClientState) {
    count(closed)
    leave(state)
  }
  func didChange(_ state: ClientState, to other: ClientState) {
    leave(state)
    states.add(at: other.rawValue)
  }
  private func leave(_ state: ClientState) { states.set(states.value(at: state.rawValue) &- 1, at: state.rawValue) }
  func didBeginExchange() { count(begun) }
  func didEndExchange() { count(ended) }
  /// A connection of HTTP/1 has a part of a head, or has no longer.
  func didChangeHead(had: Bool, has: Bool) {
    guard had != has else { return }
    if has { count(headsBegun) } else { count(headsEnded) }
  }

  fileprivate func add(to totals: inout TrafficTotals) {
    // Ends before begins: what ends between two loads makes no difference negative.
    let closed = closed.load(ordering: .relaxed), ended = ended.load(ordering: .relaxed)
    let headsEnded = headsEnded.load(ordering: .relaxed)
    let handled = handled.load(ordering: .relaxed), begun = begun.load(ordering: .relaxed)
    totals.accepted &+= accepted.load(ordering: .relaxed)
    totals.handled &+= handled
    totals.requests &+= begun
    totals.active &+= handled >= closed ? handled - closed : 0
    totals.writing &+= begun >= ended ? begun - ended : 0
    let headsBegun = headsBegun.load(ordering: .relaxed)
    totals.reading &+= headsBegun >= headsEnded ? headsBegun - headsEnded : 0
    for state in ClientState.allCases { totals.states[state.rawValue] &+= states.value(at: state.rawValue) }
  }
}

/// The counts of all workers together.
package struct TrafficTotals: Equatable {
  package var accepted: UInt64 = 0
  /// Less than `accepted` if `worker_connections` was reached.
  package var handled: UInt64 = 0
  package var requests: UInt64 = 0
  package var active: UInt64 = 0
  /// Connections whose head is incomplete.
  package var reading: UInt64 = 0
  /// Exchanges in progress. One connection of HTTP/2 can have many.
  package var writing: UInt64 = 0
  /// Open connections by `ClientState.rawValue`.
  package var states = Array(repeating: UInt64(0), count: ClientState.allCases.count)
  /// Connections without a request, as nginx's documentation first defined it: the active ones that neither read nor
  /// write. Those of `stream` wait for no request.
  package var waiting: UInt64 {
    let busy = reading &+ writing &+ states[ClientState.stream.rawValue]
    return active > busy ? active - busy : 0
  }

  /// nginx's page, byte for byte.
  package var page: String {
    "Active connections: \(active) \nserver accepts handled requests\n \(accepted) \(handled) \(requests) \n"
      + "Reading: \(reading) Writing: \(writing) Waiting: \(waiting) \n"
  }
}

/// The counts of every worker of the process.
package final class TrafficCounts: Sendable {
  private let workers = Mutex<[WorkerTraffic]>([])

  /// Makes the counts of a new worker.
  func addWorker() -> WorkerTraffic {
    let traffic = WorkerTraffic()
    workers.withLock { $0.append(traffic) }
    return traffic
  }

  package var totals: TrafficTotals {
    workers.withLock { $0 }.reduce(into: TrafficTotals()) { totals, worker in worker.add(to: &totals) }
  }
}
