/// What the choice of a group's server asks of a request: the key of `hash`, and `sticky`.
public struct BalanceSettings: Sendable, Hashable {
  /// `hash KEY`
  public var key: Template?
  public var sticky: StickySettings?

  public init(key: Template? = nil, sticky: StickySettings? = nil) {
    self.key = key
    self.sticky = sticky
  }
}

/// How requests are bound to a server (nginx: `sticky`).
public enum StickySettings: Sendable, Hashable {
  /// `sticky cookie`: the response tells the client its server.
  case cookie(StickyCookieSettings)
  /// `sticky route`: the first variable with a value names the server.
  case route([Template])
  /// `sticky learn`: sallyport remembers the servers of sessions.
  case learn(StickyLearnSettings)
}

/// The cookie of `sticky cookie`.
public struct StickyCookieSettings: Sendable, Hashable {
  /// `expires=`: how long the client keeps the cookie.
  public enum Lifetime: Sendable, Hashable {
    case longest
    case seconds(Int)
  }

  public var name: [UInt8]
  /// nil: until the client's session ends.
  public var lifetime: Lifetime?
  public var domain: Template?
  public var path: [UInt8]?
  public var isHTTPOnly = false
  public var isSecure = false
  public var sameSite: Template?

  public init(name: [UInt8]) { self.name = name }
}

/// `sticky learn`
public struct StickyLearnSettings: Sendable, Hashable {
  /// The first with a value names a new session.
  public var creates: [Template]
  /// The first with a value names the session of a request.
  public var lookups: [Template]
  public var zone: String
  /// The memory for sessions, in bytes.
  public var size: Int
  /// Milliseconds after its last response in which a session is remembered.
  public var timeout: Int
  /// `header`: a session is learnt from the head of a response, not at its end.
  public var isEarly: Bool

  public init(
    creates: [Template], lookups: [Template], zone: String, size: Int, timeout: Int, isEarly: Bool
  ) {
    self.creates = creates
    self.lookups = lookups
    self.zone = zone
    self.size = size
    self.timeout = timeout
    self.isEarly = isEarly
  }
}
