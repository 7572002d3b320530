public import Crypto
public import Observability

/// `proxy_auth_persistence`: how long a challenge is answered ahead of its being asked again.
public enum AuthPersistence: Sendable, Hashable {
  /// It is forgotten with the exchange.
  case none
  /// For the life of the process.
  case session
  /// In files of this folder too (`proxy_auth_state`).
  case permanent(folder: String)
}

/// `proxy_auth` and its companions, in effect at one location.
public struct UpstreamAuthSettings: Sendable, Hashable {
  public var schemes: AuthSchemes
  /// `proxy_auth_user_file`
  public var users: MaterialReference
  /// Empty: the `proxy_pass` server, any realm.
  public var spaces: [ProtectionSpace]
  public var persistence: AuthPersistence
  /// `ssl_reload`: the user file is watched.
  public var reloads: Bool
  public var location: SourceLocation

  public init(
    schemes: AuthSchemes, users: MaterialReference, spaces: [ProtectionSpace], persistence: AuthPersistence,
    reloads: Bool, location: SourceLocation
  ) {
    self.schemes = schemes
    self.users = users
    self.spaces = spaces
    self.persistence = persistence
    self.reloads = reloads
    self.location = location
  }

  /// Whether a challenge of this server may be answered.
  package func admits(_ offer: Offer, from origin: AuthOrigin) -> Bool {
    schemes.contains(offer.scheme)
      && (spaces.isEmpty || spaces.contains { $0.contains(origin, realm: offer.realm) })
  }
}
