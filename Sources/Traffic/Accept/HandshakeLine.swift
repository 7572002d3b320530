import DequeModule

/// The handshakes of one worker whose next step can be done, and in which order: those of the origin go first whose
/// handshakes took the least of the worker's time lately. Pure: the caller brings the time (milliseconds of one monotonic
/// clock).
///
/// A client chooses by its ClientHello how much the server has to compute, so a count of handshakes says little.
struct HandshakeLine {
  typealias Origin = HandshakeTurns.Origin

  private struct Cost {
    /// Microseconds at `since`, of which half counts a second later.
    var spent: UInt64
    var since: UInt64

    func left(at now: UInt64) -> UInt64 {
      let halvings = now > since ? (now - since) / 1000 : 0
      return halvings < 64 ? spent >> halvings : 0
    }
  }

  /// The most origins whose cost is remembered.
  static let limit = 4096
  /// Microseconds that are no cost: those of one handshake.
  private static let negligible: UInt64 = 1000

  private var waiting: [Origin?: Deque<(client: UInt64, arrival: UInt64)>] = [:]
  private var known: Set<UInt64> = []
  private var arrivals: UInt64 = 0
  private var costs: [Origin?: Cost] = [:]

  var isEmpty: Bool { known.isEmpty }
  /// How many entries the tables have, for tests.
  var kept: Int { known.count + costs.count }

  /// The client's next step can be done. A client stands in the line once.
  mutating func add(_ client: UInt64, _ origin: Origin?) {
    guard known.insert(client).inserted else { return }
    arrivals &+= 1
    waiting[origin, default: []].append((client, arrivals))
  }

  /// Takes the next client out of the line; of origins that have cost the same, the one that came first.
  mutating func next(now: UInt64) -> (client: UInt64, origin: Origin?)? {
    var best: (origin: Origin?, cost: UInt64, arrival: UInt64)?
    for (origin, line) in waiting {
      guard let first = line.first else { continue }
      let cost = costs[origin]?.left(at: now) ?? 0
      if let best, (best.cost, best.arrival) < (cost, first.arrival) { continue }
      best = (origin, cost, first.arrival)
    }
    guard let best, let client = waiting[best.origin]?.popFirst()?.client else { return nil }
    if waiting[best.origin]?.isEmpty == true { waiting[best.origin] = nil }
    known.remove(client)
    return (client, best.origin)
  }

  /// A step of a client of this origin took so long.
  mutating func spend(_ microseconds: UInt64, of origin: Origin?, now: UInt64) {
    if costs[origin] == nil, costs.count >= Self.limit {
      costs = costs.filter { $0.value.left(at: now) >= Self.negligible }
      // Each of them has cost much: then nobody is told apart until they have.
      if costs.count >= Self.limit { costs.removeAll(keepingCapacity: true) }
    }
    let before = costs[origin]?.left(at: now) ?? 0
    costs[origin] = Cost(spent: before &+ min(microseconds, UInt64(UInt32.max)), since: now)
  }
}
