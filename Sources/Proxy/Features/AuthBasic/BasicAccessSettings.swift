public import Crypto

/// Where the users of `auth_basic` are.
public enum AccountSource: Sendable, Hashable {
  case file(MaterialReference)
  /// `auth_basic_user_file` with variables: a path, relative to `folder` if it doesn't begin with a slash.
  case named(Template, folder: String)
}

/// `auth_basic`: who has no password in the file does not get in.
public struct BasicAccessSettings: Sendable, Hashable {
  public let realm: Template
  /// Read with each request, as nginx does.
  public let source: AccountSource

  public init(realm: Template, source: AccountSource) {
    self.realm = realm
    self.source = source
  }

  /// The file; nil if requests name it.
  public var users: MaterialReference? { if case .file(let users) = source { users } else { nil } }
}
