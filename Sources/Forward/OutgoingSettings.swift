public import Traffic
public import Transport

/// `proxy_protocol`: the header by which connections to upstreams tell who the client is.
public enum ProxyHeaderForm: Sendable, Hashable {
  case version1
  /// `v2`, and with `certificate` the whole certificate of a verified client.
  case version2(hasCertificate: Bool)
}

/// How the connections of a `proxy_pass` begin: `proxy_bind`, `proxy_protocol` and the options of the socket.
public struct OriginSettings: Sendable, Hashable {
  /// What is the same for all requests. Without variables, its address is that of `proxy_bind`.
  public var fixed = ConnectionOrigin()
  /// `proxy_bind` with variables; an empty value means that the system chooses.
  public var local: Template?
  /// nil: connections begin with the upstream's own protocol.
  public var header: ProxyHeaderForm?
  /// The proxy through which connections go; nil: they go to the upstream itself.
  public var tunnel: TunnelSettings?
  public init() {}

  /// For connections that no client is behind: those of health checks. `proxy_bind` with variables doesn't apply to them.
  /// `base`: what is the same for all requests.
  package func ofOwnConnections(_ base: ConnectionOrigin) -> ConnectionOrigin {
    var origin = base
    switch header {
    case .version1: origin.header = ProxyHeaderWriter.ownVersion1
    case .version2: origin.header = ProxyHeaderWriter.ownVersion2
    case nil: break
    }
    return origin
  }
}
