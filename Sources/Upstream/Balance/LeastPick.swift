/// `least_conn` and `least_time`: the server with the least to do for its weight; several such take turns.
extension Balancer {
  /// What a server has to do: by its connections, or by its response times too.
  func load(_ index: Int, _ time: BalanceMethod.ResponseTime?, now: UInt64) -> Int {
    let peer = peers[index]
    guard let time else { return peer.active }
    let idle = now < peer.checkedAt ? 0 : now - peer.checkedAt
    let halvings = idle > peer.terms.failTimeout ? idle / (min(peer.terms.failTimeout, .max - 1000) + 1000) : 0
    return peer.times.estimate(time, active: peer.active, isIdleFor: halvings)
  }

  private var responseTime: BalanceMethod.ResponseTime? {
    if case .leastTime(let time, _) = method { time } else { nil }
  }

  /// The weight by which loads are compared: not 0 while `slow_start` goes on.
  private func weight(_ index: Int, now: UInt64) -> Int {
    peers[index].terms.weight * max(1, peers[index].share(now: now))
  }

  mutating func leastLoaded(now: UInt64, _ selection: Selection, backup: Bool) -> Int? {
    if let bound = boundServer(selection, now: now, backup: backup) { return bound }
    let time = responseTime
    var best: (index: Int, load: Int, weight: Int)?
    var isShared = false
    for index in peers.indices where peers[index].terms.isBackup == backup {
      guard isUsable(index, selection, now: now) else { continue }
      if time != nil { peers[index].noteTimes { $0.noteAges(now: now) } }
      let found = (index: index, load: load(index, time, now: now), weight: weight(index, now: now))
      guard let current = best else {
        best = found
        continue
      }
      let (left, right) = (
        found.load.saturatingProduct(current.weight), current.load.saturatingProduct(found.weight)
      )
      if left < right { (best, isShared) = (found, false) } else if left == right { isShared = true }
    }
    guard let best else { return nil }
    guard isShared else { return best.index }
    var (choice, total) = (best.index, 0)
    for index in peers.indices[best.index...] where peers[index].terms.isBackup == backup {
      guard isUsable(index, selection, now: now),
        load(index, time, now: now).saturatingProduct(best.weight)
          == best.load.saturatingProduct(weight(index, now: now))
      else { continue }
      total += gain(index, now: now)
      if peers[index].currentWeight > peers[choice].currentWeight { choice = index }
    }
    peers[choice].currentWeight -= total
    return choice
  }
}
