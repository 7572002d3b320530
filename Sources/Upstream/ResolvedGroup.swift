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
  /// For `hash … consistent`: made here, so that all workers share it.
  let ring: HashRing?

  public init(settings: UpstreamGroupSettings, servers: [Server]) {
    self.settings = settings
    self.servers = servers
    ring =
      settings.method == .consistentHash
      ? HashRing(servers.map { ($0.settings.spelling, $0.settings.weight) }) : nil
  }
}
