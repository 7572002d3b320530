import Observability
public import Transport

/// What may be changed of a server while it serves, by nginx's names of the API; nil: it stays as it is.
public struct ServerPatch: Sendable, Hashable {
  /// 1 to 65535.
  public var weight: Int?
  /// 0: no bound.
  public var maxConnections: Int?
  public var maxFails: Int?
  /// Seconds.
  public var failTimeout: Int?
  /// Seconds.
  public var slowStart: Int?
  public var isDown: Bool?
  public var isDraining: Bool?
  public init() {}

  /// This patch, and beneath it what a former one has said.
  func over(_ former: ServerPatch?) -> ServerPatch {
    guard let former else { return self }
    var all = former
    all.weight = weight ?? all.weight
    all.maxConnections = maxConnections ?? all.maxConnections
    all.maxFails = maxFails ?? all.maxFails
    all.failTimeout = failTimeout ?? all.failTimeout
    all.slowStart = slowStart ?? all.slowStart
    all.isDown = isDown ?? all.isDown
    all.isDraining = isDraining ?? all.isDraining
    return all
  }

  func applied(to peer: Balancer.Peer) -> Balancer.Peer {
    Balancer.Peer(
      weight: weight ?? peer.weight, maxFails: maxFails ?? peer.maxFails,
      failTimeout: failTimeout.map(MonotonicClock.milliseconds(ofSeconds:)) ?? peer.failTimeout,
      maxConnections: maxConnections ?? peer.maxConnections, isBackup: peer.isBackup, isDown: isDown ?? peer.isDown,
      slowStart: slowStart.map(MonotonicClock.milliseconds(ofSeconds:)) ?? peer.slowStart,
      isDraining: isDraining ?? peer.isDraining,
      identifier: peer.identifier, address: peer.address)
  }

}

/// A server of a group as it is now: what its line says, what was changed since, and how it stands.
public struct GroupMember: Sendable {
  /// Never that of another server of the group, as long as the group is in use.
  public let id: UInt64
  public let address: SocketAddress
  public let weight: Int
  public let maxConnections: Int
  public let maxFails: Int
  /// Milliseconds, as `slowStart`.
  public let failTimeout: UInt64
  public let slowStart: UInt64
  public let isBackup: Bool
  public let isDown: Bool
  public let isDraining: Bool
  public let isHealthy: Bool
  /// It is left out for its failures.
  public let hasFailed: Bool
  /// Attempts in progress.
  public let active: Int
  /// Something was changed since the configuration was loaded.
  public let isChanged: Bool

  init?(_ peer: PeerState, isChanged: Bool, now: UInt64) {
    let terms = peer.terms
    guard let address = terms.address else { return nil }
    id = peer.serial &- 1
    self.address = address
    (weight, maxConnections, maxFails) = (terms.weight, terms.maxConnections, terms.maxFails)
    (failTimeout, slowStart) = (terms.failTimeout, terms.slowStart)
    (isBackup, isDown, isDraining) = (terms.isBackup, terms.isDown, terms.isDraining)
    isHealthy = peer.isHealthy
    hasFailed = peer.hasFailed(now: now)
    active = peer.active
    self.isChanged = isChanged
  }
}

extension UpstreamGroup {
  /// Why a server was not changed.
  public enum PatchFault: Error, Sendable {
    /// Without `zone`, each worker has a state of its own.
    case noZone
    case unknown
    /// `hash … consistent` has its ring from the weights of the configuration.
    case weightOfRing
  }

  /// The servers of the group now, in the order of the configuration.
  public var members: [GroupMember] {
    let now = loop.now
    guard let shared else { return balancer.members(now: now) }
    return shared.withLock { $0.members(now: now) }
  }

  /// Changes a server for all workers, and returns it as it is then. A reload keeps the change as long as the server's
  /// own line says the same.
  public func patch(_ id: UInt64, _ patch: ServerPatch) throws(PatchFault) -> GroupMember {
    guard let shared else { throw .noZone }
    if patch.weight != nil, settings.method == .consistentHash { throw .weightOfRing }
    let now = loop.now
    let member = shared.withLock { balancer -> GroupMember? in
      balancer.patch(serial: id &+ 1, patch)
      return balancer.members(now: now).first { $0.id == id }
    }
    guard let member else { throw .unknown }
    return member
  }
}
