public import DNS
public import Observability

/// A `resolver` line: the servers that are asked for names, and how their answers are used.
public struct ResolverSettings: Sendable, Hashable {
  /// A server's name is resolved by the system, at start and reload.
  public struct Server: Sendable, Hashable {
    public var address: UpstreamAddress
    public var location: SourceLocation
    public init(address: UpstreamAddress, location: SourceLocation) {
      self.address = address
      self.location = location
    }
  }
  /// Not empty.
  public var servers: [Server]
  public var policy: DNSPolicy

  public init(servers: [Server], policy: DNSPolicy) {
    self.servers = servers
    self.policy = policy
  }
}

/// How the names of a level are resolved: by `resolver` and within `resolver_timeout`.
public struct NameResolutionSettings: Sendable, Hashable {
  public var resolver: ResolverSettings
  /// Milliseconds.
  public var timeout: Int

  public init(resolver: ResolverSettings, timeout: Int) {
    self.resolver = resolver
    self.timeout = timeout
  }
}
