public import Observability

/// The server that a request goes to, as configurations name it: where its challenge comes from.
package struct AuthOrigin: Sendable, Hashable {
  /// `http` or `https`.
  package var scheme: String
  /// Of the upstream group, in small letters; that which an address makes has no name that a space could have.
  package var group: String
  /// An address in its usual notation, or a name in small letters.
  package var host: String
  /// nil: a UNIX socket.
  package var port: UInt16?

  package init(scheme: String, group: String, host: String, port: UInt16?) {
    self.scheme = scheme
    self.group = group
    self.host = host
    self.port = port
  }
}

/// `proxy_auth_space`: where credentials may be shown.
public struct ProtectionSpace: Sendable, Hashable {
  public var scheme: String
  /// As `AuthOrigin.host`, or the name of an upstream group.
  public var host: String
  /// nil: the scheme's own, and for a group whatever its servers have.
  public var port: UInt16?
  /// nil: any.
  public var realm: [UInt8]?
  public var location: SourceLocation

  public init(scheme: String, host: String, port: UInt16?, realm: [UInt8]?, location: SourceLocation) {
    self.scheme = scheme
    self.host = host
    self.port = port
    self.realm = realm
    self.location = location
  }

  /// `realm`: of the challenge; nil for one that has none, which is in no space that names one.
  package func contains(_ origin: AuthOrigin, realm: [UInt8]?) -> Bool {
    holds(origin) && (self.realm == nil || self.realm == realm)
  }

  /// The server alone.
  package func holds(_ origin: AuthOrigin) -> Bool {
    guard scheme == origin.scheme else { return false }
    if host == origin.group { return port == nil || port == origin.port }
    return host == origin.host && (port ?? (scheme == "https" ? 443 : 80)) == origin.port
  }
}
