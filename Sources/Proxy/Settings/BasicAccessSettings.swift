public import Crypto

/// `auth_basic`: who has no password in the file does not get in.
public struct BasicAccessSettings: Sendable, Hashable {
  public let realm: Template
  /// Read with each request, as nginx does.
  public let users: MaterialReference

  public init(realm: Template, users: MaterialReference) {
    self.realm = realm
    self.users = users
  }
}
