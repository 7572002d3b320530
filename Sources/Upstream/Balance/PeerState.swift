/// What the balancer knows of one server at run time: its weights, failures and active attempts, as nginx counts them.
struct PeerState: Sendable {
  /// Never given twice.
  let serial: UInt64
  private(set) var terms: Balancer.Peer
  /// By the health checks. A server without one is healthy.
  private(set) var isHealthy = true
  var currentWeight = 0
  private(set) var effectiveWeight: Int
  private(set) var fails = 0
  /// How often it was left out because its failures had become `max_fails`.
  private(set) var exclusions: UInt64 = 0
  private(set) var active = 0
  private var failedAt: UInt64 = 0
  private(set) var checkedAt: UInt64 = 0
  /// When `slow_start` began; nil: the server has its whole weight.
  private var startedAt: UInt64?
  private(set) var times = ResponseTimes()

  init(_ terms: Balancer.Peer, serial: UInt64) {
    self.terms = terms
    self.serial = serial
    effectiveWeight = terms.weight
  }

  /// Takes new settings of the same server, and keeps what is known of it.
  mutating func adopt(_ terms: Balancer.Peer) {
    if terms.weight != self.terms.weight { (effectiveWeight, currentWeight) = (terms.weight, 0) }
    self.terms = terms
  }

  // MARK: Whether it may be picked

  var hasRoom: Bool { terms.maxConnections == 0 || active < terms.maxConnections }

  /// Whether the server may be tried at all. `isBound`: the request belongs to it, which `drain` allows.
  func isOpen(isBound: Bool = false) -> Bool {
    !terms.isDown && isHealthy && hasRoom && (isBound || !terms.isDraining)
  }

  /// Whether the server is left out for its failures.
  func hasFailed(now: UInt64) -> Bool {
    terms.maxFails > 0 && fails >= terms.maxFails && Self.elapsed(since: checkedAt, now: now) <= terms.failTimeout
  }

  /// The clocks of workers that share the state may differ by a turn of a loop.
  private static func elapsed(since past: UInt64, now: UInt64) -> UInt64 { now < past ? 0 : now - past }

  // MARK: Weights

  /// The share of its weight that the server has, in hundredths.
  func share(now: UInt64) -> Int {
    guard let startedAt, terms.slowStart > 0 else { return 100 }
    let elapsed = Self.elapsed(since: startedAt, now: now)
    guard elapsed < terms.slowStart else { return 100 }
    return Int(clamping: elapsed.multipliedReportingOverflow(by: 100).partialValue / terms.slowStart)
  }

  /// Whether the server takes part in the round robin of the backup servers, or of the others.
  func isTurning(backup: Bool, now: UInt64) -> Bool { terms.isBackup == backup && isOpen() && !hasFailed(now: now) }

  /// Adds the weight to the current one, and returns it. A weight that failures have lowered rises by one. `scale`: 1, or
  /// 100 where a server has `slow_start`.
  mutating func gain(scale: Int, now: UInt64) -> Int {
    let weight = scale == 1 ? effectiveWeight : effectiveWeight * share(now: now)
    currentWeight += weight
    if effectiveWeight < terms.weight { effectiveWeight += 1 }
    return weight
  }

  // MARK: Attempts

  mutating func begin(now: UInt64, isSingle: Bool, countsInFlight: Bool) {
    active += 1
    if !isSingle, Self.elapsed(since: checkedAt, now: now) > terms.failTimeout { checkedAt = now }
    if countsInFlight { times.begin(now: now) }
  }

  mutating func end(_ result: Balancer.AttemptResult, now: UInt64, isSingle: Bool) {
    active = max(0, active - 1)
    switch result {
    case .failure:
      if fails < Int.max { fails += 1 }
      if fails == terms.maxFails { exclusions &+= 1 }
      failedAt = now
      checkedAt = now
      if terms.maxFails > 0 { effectiveWeight = max(0, effectiveWeight - terms.weight / terms.maxFails) }
    case .success: succeed(now: now, isSingle: isSingle)
    case .unjudged: break
    }
  }

  /// A success after `fail_timeout` clears the failures. The server was left out if there were enough of them.
  mutating func succeed(now: UInt64, isSingle: Bool) {
    guard failedAt < checkedAt || isSingle else { return }
    if !isSingle, terms.maxFails > 0, fails >= terms.maxFails { startSlowly(now: now) }
    fails = 0
  }

  mutating func noteTimes(_ change: (inout ResponseTimes) -> Void) { change(&times) }

  mutating func setHealth(_ isHealthy: Bool, now: UInt64) {
    if isHealthy, !self.isHealthy { startSlowly(now: now) }
    self.isHealthy = isHealthy
  }

  private mutating func startSlowly(now: UInt64) { if terms.slowStart > 0 { startedAt = now } }
}
