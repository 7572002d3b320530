public import HTTP
public import TLS
public import Transport

/// The policy and the name by which an upstream is verified, and the user of its connections. An attempt never uses a
/// kept session with another trust.
public final class UpstreamTrust: Sendable {
  /// nil: plain HTTP.
  public let context: UpstreamTLSContext?
  public let name: String
  /// Whether the connection speaks HTTP/2. With TLS, the context offers it by ALPN.
  public let speaksHTTP2: Bool
  /// The user that connections are authenticated as (NTLM); compared by identity.
  package let user: (any AnyObject & Sendable)?
  /// How its connections begin.
  public let origin: ConnectionOrigin

  public init(
    context: UpstreamTLSContext?, name: String, speaksHTTP2: Bool = false, origin: ConnectionOrigin = ConnectionOrigin()
  ) {
    self.context = context
    self.name = context == nil ? "" : name
    self.speaksHTTP2 = speaksHTTP2
    self.origin = origin
    user = nil
  }

  package init(
    context: UpstreamTLSContext?, name: String, speaksHTTP2: Bool, boundTo user: (any AnyObject & Sendable)?,
    origin: ConnectionOrigin = ConnectionOrigin()
  ) {
    self.origin = origin
    self.context = context
    self.speaksHTTP2 = speaksHTTP2
    self.name = context == nil ? "" : name
    self.user = user
  }

  func isSame(as other: UpstreamTrust) -> Bool {
    self === other
      || (context === other.context && name == other.name && user === other.user && speaksHTTP2 == other.speaksHTTP2
        && origin == other.origin)
  }
}

/// What an attempt needs to know besides the group.
public struct AttemptSettings: Sendable {
  public var timeouts: UpstreamTimeouts
  public var headLimits: HeadLimits
  /// Whose connections these are, in a group with `keepalive … local`: an object of the configuration.
  public var place: ObjectIdentifier?
  public init(timeouts: UpstreamTimeouts, headLimits: HeadLimits, place: ObjectIdentifier? = nil) {
    self.timeouts = timeouts
    self.headLimits = headLimits
    self.place = place
  }
}
