/// `auth_request` with its `auth_request_set` lines.
public struct AuthorizationSettings: Sendable, Hashable {
  /// One `auth_request_set`: a variable of the main request, and the value that it gets of the subrequest.
  public struct Setting: Sendable, Hashable {
    public enum Target: Sendable, Hashable {
      case slot(Int)
      /// `$args`
      case arguments
    }

    public var target: Target
    public var value: Template
    public init(_ target: Target, value: Template) {
      self.target = target
      self.value = value
    }
  }
  /// A path of the same server block.
  public var path: [UInt8]
  public var variables: [Setting]
  public init(path: [UInt8], variables: [Setting]) {
    self.path = path
    self.variables = variables
  }
}

/// The `mirror` lines of a level.
public struct MirrorSettings: Sendable, Hashable {
  /// Paths of the same server block.
  public var paths: [[UInt8]]
  /// `mirror_request_body`
  public var sendsBody: Bool
  public init(paths: [[UInt8]], sendsBody: Bool) {
    self.paths = paths
    self.sendsBody = sendsBody
  }
}

/// What a location says of subrequests.
public struct SubrequestSettings: Sendable, Hashable {
  /// nil: no `auth_request`, or `off`.
  public var authorization: AuthorizationSettings?
  /// nil: no `mirror`, or `off`.
  public var mirrors: MirrorSettings?
  /// `log_subrequest`: whether the access log gets the subrequests that this location answers.
  public var areLogged: Bool
  public init(authorization: AuthorizationSettings?, mirrors: MirrorSettings?, areLogged: Bool) {
    self.authorization = authorization
    self.mirrors = mirrors
    self.areLogged = areLogged
  }
}
