import Transport

extension UpstreamGroup {
  func noteOpened(_ server: Int) {
    if openSessions.indices.contains(server) { openSessions[server] += 1 }
    meter?.server(server)?.didConnect()
  }

  func noteClosed(_ server: Int) {
    if openSessions.indices.contains(server) { openSessions[server] -= 1 }
  }

  /// The servers that get no requests because of their failures (`max_fails`).
  private var failedServers: Set<Int> {
    let now = loop.now
    func failed(_ balancer: Balancer) -> Set<Int> {
      Set(balancer.peers.indices.filter { balancer.peers[$0].hasFailed(now: now) })
    }
    guard let shared else { return failed(balancer) }
    return shared.withLock { failed($0) }
  }

  private func countDowntime(_ failed: Set<Int>, _ meter: GroupMeter) {
    let now = loop.now, since = sampledAt
    sampledAt = now
    guard since > 0, now > since else { return }
    var seen: Set<ObjectIdentifier> = []
    for server in servers.indices where failed.contains(server) || health?.isUp(server) == false {
      guard let own = meter.server(server), seen.insert(ObjectIdentifier(own)).inserted else { continue }
      own.wasOut(for: now - since)
    }
  }

  /// Writes to the meters how many sessions are kept and open, and which servers are left out for their failures.
  /// Called once a second: requests change none of these gauges.
  public func sample() {
    guard let meter else { return }
    var kept = [Int](repeating: 0, count: servers.count)
    for session in idle.all where kept.indices.contains(session.server) { kept[session.server] += 1 }
    for session in multiplexed where session.isResting && kept.indices.contains(session.server) {
      kept[session.server] += 1
    }
    let failed = failedServers
    // Several addresses of one name have one meter.
    var samples: [ObjectIdentifier: (meter: AttemptMeter, idle: Int, open: Int, isUnavailable: Bool)] = [:]
    for server in servers.indices {
      guard let own = meter.server(server) else { continue }
      let former = samples[ObjectIdentifier(own)] ?? (own, 0, 0, true)
      samples[ObjectIdentifier(own)] = (
        own, former.idle + kept[server], former.open + openSessions[server],
        former.isUnavailable && failed.contains(server)
      )
    }
    // Health is the same in all workers, and one of them counts.
    if loop.index == 0 { countDowntime(failed, meter) }
    for sample in samples.values {
      sample.meter.set(idle: sample.idle, open: sample.open, isUnavailable: sample.isUnavailable)
    }
  }
}
