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

/// What a patch says of a server otherwise than its line.
public struct ServerOverride: Sendable, Hashable {
  /// The word of its line: `weight`, `drain`.
  public let name: String
  /// A number, seconds, or 1 for yes and 0 for no.
  public let value: Int64

  static func all(of peer: Balancer.Peer, insteadOf line: Balancer.Peer) -> [ServerOverride] {
    func seconds(_ milliseconds: UInt64) -> Int64 { Int64(clamping: milliseconds / 1000) }
    let pairs: [(name: String, now: Int64, line: Int64)] = [
      ("drain", peer.isDraining ? 1 : 0, line.isDraining ? 1 : 0), ("down", peer.isDown ? 1 : 0, line.isDown ? 1 : 0),
      ("weight", Int64(peer.weight), Int64(line.weight)),
      ("max_conns", Int64(peer.maxConnections), Int64(line.maxConnections)),
      ("max_fails", Int64(peer.maxFails), Int64(line.maxFails)),
      ("fail_timeout", seconds(peer.failTimeout), seconds(line.failTimeout)),
      ("slow_start", seconds(peer.slowStart), seconds(line.slowStart)),
    ]
    return pairs.filter { $0.now != $0.line }.map { ServerOverride(name: $0.name, value: $0.now) }
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
  /// How often its failures had become `max_fails`.
  public let exclusions: UInt64
  /// Attempts in progress.
  public let active: Int
  /// Something was changed since the configuration was loaded.
  public let isChanged: Bool
  /// What is other now than its line says.
  public let overrides: [ServerOverride]

  /// `line`: the server as its line has it, if something was changed.
  init?(_ peer: PeerState, changedFrom line: Balancer.Peer?, now: UInt64) {
    let terms = peer.terms
    guard let address = terms.address else { return nil }
    id = peer.serial &- 1
    self.address = address
    (weight, maxConnections, maxFails) = (terms.weight, terms.maxConnections, terms.maxFails)
    (failTimeout, slowStart) = (terms.failTimeout, terms.slowStart)
    (isBackup, isDown, isDraining) = (terms.isBackup, terms.isDown, terms.isDraining)
    isHealthy = peer.isHealthy
    hasFailed = peer.hasFailed(now: now)
    exclusions = peer.exclusions
    active = peer.active
    isChanged = line != nil
    overrides = line.map { ServerOverride.all(of: terms, insteadOf: $0) } ?? []
  }
}

extension GroupMember {
  /// The words of its line in a `state`. `route`: empty without one.
  func words(route: [UInt8]) -> [String] {
    var words = ["server", "\(address)"]
    if weight != 1 { words.append("weight=\(weight)") }
    if maxConnections != 0 { words.append("max_conns=\(maxConnections)") }
    if maxFails != 1 { words.append("max_fails=\(maxFails)") }
    if failTimeout != 10_000 { words.append("fail_timeout=\(failTimeout / 1000)s") }
    if slowStart != 0 { words.append("slow_start=\(slowStart / 1000)s") }
    if !route.isEmpty { words.append("route=\(String(decoding: route, as: UTF8.self))") }
    if isBackup { words.append("backup") }
    if isDown { words.append("down") }
    if isDraining { words.append("drain") }
    return words
  }
}

extension UpstreamGroup {
  /// Adds a server for all workers, and returns it. A reload keeps it, and a restart only with `state`.
  public func add(_ server: UpstreamServerSettings, at address: SocketAddress) throws(ServerListFault) -> GroupMember {
    guard let list else { throw .fixed }
    try list.add(ResolvedGroup.Server(address: address, settings: server))
    guard let member = members.first(where: { $0.address == address }) else { throw .unknown }
    return member
  }

  /// Removes a server for all workers, and returns it.
  public func remove(_ id: UInt64) throws(ServerListFault) -> GroupMember {
    guard let member = members.first(where: { $0.id == id }) else { throw .unknown }
    guard let list else { throw .fixed }
    try list.remove(member.address)
    return member
  }

  /// What the API has added to the servers of the lines, and removed of them.
  public var changedServers: (added: Set<SocketAddress>, removed: [SocketAddress]) { list?.changed ?? ([], []) }

  /// The words of the lines that its `state` is to have; nil without one.
  public var stateLines: (path: String, lines: @Sendable () -> [[String]])? {
    guard let list, let path = settings.stateFile else { return nil }
    return (path, { list.lines })
  }

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
