/// The servers of a group that failed in this worker and have not recovered. `FaultLog`, which all workers share, knows
/// the rest; this value spares a response of a sound group the lock there.
struct TroubledServers {
  private var marks: [Bool]
  private var count = 0

  var isEmpty: Bool { count == 0 }

  init(servers: Int) { marks = Array(repeating: false, count: max(0, servers)) }

  func contains(_ server: Int) -> Bool { marks.indices.contains(server) && marks[server] }

  mutating func insert(_ server: Int) {
    guard marks.indices.contains(server), !marks[server] else { return }
    marks[server] = true
    count += 1
  }

  mutating func remove(_ server: Int) {
    guard contains(server) else { return }
    marks[server] = false
    count -= 1
  }
}
