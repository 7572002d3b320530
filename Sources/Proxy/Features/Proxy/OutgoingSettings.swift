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
  public init() {}

  /// For connections that no client is behind: those of health checks. `proxy_bind` with variables doesn't apply to them.
  package var ofOwnConnections: ConnectionOrigin {
    var origin = fixed
    switch header {
    case .version1: origin.header = ProxyHeaderWriter.ownVersion1
    case .version2: origin.header = ProxyHeaderWriter.ownVersion2
    case nil: break
    }
    return origin
  }
}

/// Where the request bodies of a location go that don't stay in memory.
public struct BodyFileSettings: Sendable, Hashable {
  /// `client_body_in_file_only`
  public enum Use: Sendable, Hashable {
    /// A body too large for memory goes to a file without a name.
    case unnamed
    /// Each body goes to a file with a name, which is removed when the exchange ends.
    case removed
    /// The same, and nobody but the operator removes the file.
    case kept
  }
  public var use = Use.unnamed
  /// `client_body_temp_path`; nil: $TMPDIR, or /tmp.
  public var folder: String?
  public init() {}

  /// Whether every body that is read whole goes to a file.
  package var isForEachBody: Bool { use != .unnamed }
}
