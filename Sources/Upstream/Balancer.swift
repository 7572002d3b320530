/// Picks the next server of a group: nginx's smooth weighted round robin with max_fails and fail_timeout.
///
/// A pure value: the caller brings the time (milliseconds of one monotonic clock). Per worker, as nginx without `zone`.
struct Balancer {
  struct Peer {
    var weight: Int
    var maxFails: Int
    var failTimeout: UInt64
    var maxConnections: Int
    var isBackup: Bool
    var isDown: Bool
    /// By the health checks. A server without one is healthy.
    fileprivate(set) var isHealthy = true
    fileprivate(set) var effectiveWeight: Int
    fileprivate(set) var currentWeight = 0
    fileprivate(set) var fails = 0
    fileprivate(set) var active = 0
    fileprivate(set) var failedAt: UInt64 = 0
    fileprivate(set) var checkedAt: UInt64 = 0

    init(
      weight: Int, maxFails: Int, failTimeout: UInt64, maxConnections: Int, isBackup: Bool, isDown: Bool
    ) {
      self.weight = weight
      self.maxFails = maxFails
      self.failTimeout = failTimeout
      self.maxConnections = maxConnections
      self.isBackup = isBackup
      self.isDown = isDown
      self.effectiveWeight = weight
    }
  }

  private(set) var peers: [Peer]

  init(peers: [Peer]) { self.peers = peers }

  /// The next server that was not tried yet; nil when none may be used. A chosen server counts as active until `end`.
  mutating func pick(now: UInt64, tried: TriedServers) -> Int? {
    if peers.count == 1 {
      // A single server never counts as failed, because there is no other server (as in nginx).
      guard !tried.contains(0), !peers[0].isDown, peers[0].isHealthy, hasRoom(0) else { return nil }
      peers[0].active += 1
      return 0
    }
    let choice = best(now: now, tried: tried, backup: false) ?? best(now: now, tried: tried, backup: true)
    guard let choice else { return nil }
    peers[choice].active += 1
    if now &- peers[choice].checkedAt > peers[choice].failTimeout { peers[choice].checkedAt = now }
    return choice
  }

  private mutating func best(now: UInt64, tried: TriedServers, backup: Bool) -> Int? {
    var total = 0
    var choice: Int?
    for index in peers.indices where peers[index].isBackup == backup {
      guard !tried.contains(index), isUsable(index, now: now) else { continue }
      peers[index].currentWeight += peers[index].effectiveWeight
      total += peers[index].effectiveWeight
      if peers[index].effectiveWeight < peers[index].weight { peers[index].effectiveWeight += 1 }
      if let current = choice, peers[index].currentWeight <= peers[current].currentWeight { continue }
      choice = index
    }
    if let choice { peers[choice].currentWeight -= total }
    return choice
  }

  private func isUsable(_ index: Int, now: UInt64) -> Bool {
    let peer = peers[index]
    if peer.isDown || !peer.isHealthy || !hasRoom(index) { return false }
    if peer.maxFails > 0 && peer.fails >= peer.maxFails && now &- peer.checkedAt <= peer.failTimeout { return false }
    return true
  }

  private func hasRoom(_ index: Int) -> Bool {
    peers[index].maxConnections == 0 || peers[index].active < peers[index].maxConnections
  }

  /// Takes the health of a server over. A server that comes up begins with its whole weight: `slow_start`, which nginx's
  /// commercial edition has, would begin here.
  mutating func setHealth(of index: Int, isHealthy: Bool) {
    guard peers.indices.contains(index) else { return }
    peers[index].isHealthy = isHealthy
  }

  enum AttemptResult { case success, failure, unjudged }

  /// Ends what `pick` began.
  mutating func end(_ index: Int, _ outcome: AttemptResult, now: UInt64) {
    guard peers.indices.contains(index) else { return }
    peers[index].active = max(0, peers[index].active - 1)
    switch outcome {
    case .failure:
      peers[index].fails += 1
      peers[index].failedAt = now
      peers[index].checkedAt = now
      if peers[index].maxFails > 0 {
        peers[index].effectiveWeight = max(
          0, peers[index].effectiveWeight - peers[index].weight / peers[index].maxFails)
      }
    case .success:
      // A success after `fail_timeout` clears the failures.
      if peers[index].failedAt < peers[index].checkedAt || peers[index].fails > 0 && peers.count == 1 {
        peers[index].fails = 0
      }
    case .unjudged: break
    }
  }
}

/// The servers that an exchange has tried: a bit for each of the first 64.
public struct TriedServers: Sendable, Equatable {
  private var bits: UInt64 = 0
  /// The servers from the 65th on; nil if none of them was tried, so that a copy counts no reference.
  private var more: Set<Int>?
  public private(set) var count = 0

  public init() {}

  /// Every server but one: only that may be picked.
  init(allBut server: Int, of count: Int) {
    for index in 0..<count where index != server { insert(index) }
  }

  public func contains(_ index: Int) -> Bool {
    index < 64 ? bits & (1 &<< UInt64(index)) != 0 : more?.contains(index) ?? false
  }

  public mutating func insert(_ index: Int) {
    guard !contains(index) else { return }
    count += 1
    if index < 64 { bits |= 1 &<< UInt64(index) } else { more = (more ?? []).union([index]) }
  }
}
