public import Observability

/// The server that sends a challenge, in the spelling of configurations.
package struct AuthOrigin: Sendable, Hashable {
  /// `http` or `https`.
  package var scheme: String
  /// The name of the upstream group, in lower case. A group that an address implies has no name that a space could use.
  package var group: String
  /// An address in its usual notation, or a name in lower case.
  package var host: String
  /// nil: a unix socket.
  package var port: UInt16?

  package init(scheme: String, group: String, host: String, port: UInt16?) {
    self.scheme = scheme
    self.group = group
    self.host = host
    self.port = port
  }
}

/// `proxy_auth_space`: where sallyport may send credentials.
public struct ProtectionSpace: Sendable, Hashable {
  public var scheme: String
  /// In the form of `AuthOrigin.host`, or the name of an upstream group.
  public var host: String
  /// nil: the scheme's default port; for a group any port of its servers.
  public var port: UInt16?
  /// nil: any realm.
  public var realm: [UInt8]?
  public var location: SourceLocation

  public init(scheme: String, host: String, port: UInt16?, realm: [UInt8]?, location: SourceLocation) {
    self.scheme = scheme
    self.host = host
    self.port = port
    self.realm = realm
    self.location = location
  }

  /// `realm`: the challenge's; nil for a challenge without a realm, which no space with a realm contains.
  package func contains(_ origin: AuthOrigin, realm: [UInt8]?) -> Bool {
    holds(origin) && (self.realm == nil || self.realm == realm)
  }

  /// Whether the space contains the server, whatever the realm.
  package func holds(_ origin: AuthOrigin) -> Bool {
    guard scheme == origin.scheme else { return false }
    if host == origin.group { return port == nil || port == origin.port }
    return host == origin.host && (port ?? (scheme == "https" ? 443 : 80)) == origin.port
  }
}
