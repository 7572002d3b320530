public import Transport

/// A group whose names were resolved, at start or reload.
public struct ResolvedGroup: Sendable {
  public struct Server: Sendable, Equatable {
    public var address: SocketAddress
    public var settings: UpstreamServerSettings
    public init(address: SocketAddress, settings: UpstreamServerSettings) {
      self.address = address
      self.settings = settings
    }
  }

  public let settings: UpstreamGroupSettings
  public let servers: [Server]
  /// What health checks find out of the servers; nil: nothing checks them.
  public var health: GroupHealth?
  /// For `hash … consistent`: made here, so that all workers share it.
  let ring: HashRing?

  /// The group with the servers that it had, because what its `state` says now is none.
  func keepingServers(of former: ResolvedGroup) -> ResolvedGroup {
    var settings = settings
    settings.servers = former.settings.servers
    return ResolvedGroup(settings: settings, servers: former.servers)
  }

  public init(settings: UpstreamGroupSettings, servers: [Server]) {
    self.settings = settings
    self.servers = servers
    ring =
      settings.method == .consistentHash
      ? HashRing(servers.map { ($0.settings.spelling, $0.settings.weight) }) : nil
  }
}
