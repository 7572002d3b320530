/// Which workers have answered: a pure state machine.
///
/// Each worker has at most one question open. A worker that hangs gets no more questions, so its queue does not grow
/// while somebody asks about it every few seconds.
struct WorkerRoll: Sendable, Hashable {
  private var isAsked: [Bool]

  init(count: Int) { isAsked = Array(repeating: false, count: max(0, count)) }

  /// Begins a round, and returns the workers to ask. The others still have a question open.
  mutating func begin() -> [Int] {
    let free = isAsked.indices.filter { !isAsked[$0] }
    for index in free { isAsked[index] = true }
    return free
  }

  mutating func answered(_ worker: Int) {
    if isAsked.indices.contains(worker) { isAsked[worker] = false }
  }

  /// The workers that have not answered.
  var silent: [Int] { isAsked.indices.filter { isAsked[$0] } }
}
