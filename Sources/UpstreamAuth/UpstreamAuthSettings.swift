public import Crypto
public import Observability

/// `proxy_auth_persistence`: how long requests carry answers before they are challenged again.
public enum AuthPersistence: Sendable, Hashable {
  /// Only for one exchange.
  case none
  /// For the life of the process.
  case session
  /// Also in files of this directory (`proxy_auth_state`).
  case permanent(folder: String)
}

/// The settings of `proxy_auth` and its companion directives at one location.
public struct UpstreamAuthSettings: Sendable, Hashable {
  public var schemes: AuthSchemes
  /// `proxy_auth_user_file`
  public var users: MaterialReference
  /// Empty: the server of `proxy_pass`, with any realm.
  public var spaces: [ProtectionSpace]
  public var persistence: AuthPersistence
  /// Whether a changed user file is reloaded without a signal (`ssl_reload`).
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

  /// Whether these settings allow an answer to a challenge of this server.
  package func admits(_ offer: Offer, from origin: AuthOrigin) -> Bool {
    schemes.contains(offer.scheme)
      && (spaces.isEmpty || spaces.contains { $0.contains(origin, realm: offer.realm) })
  }
}
