public import HTTP
public import Negotiation
public import TLS
public import Transport

/// The policy and the name by which an upstream is verified, and the user of its connections. An attempt never uses a
/// kept session with another trust.
public final class UpstreamTrust: Sendable {
  /// nil: plain HTTP.
  public let context: UpstreamTLSContext?
  public let name: String
  /// With TLS, the context offers HTTP/2 by ALPN.
  public let connection: UpstreamConnection
  /// The user that connections are authenticated as (NTLM); compared by identity.
  package let user: (any AnyObject & Sendable)?
  /// What is said in clear before TLS, or before the client's bytes; nil: nothing. For connections of one client only.
  public let negotiation: UpstreamNegotiation?
  /// How its connections begin.
  public let origin: ConnectionOrigin
  /// What ALPN offers where a request or session has a say in it; empty: what the context offers.
  public let protocols: OfferedProtocols

  public init(
    context: UpstreamTLSContext?, name: String, connection: UpstreamConnection = .http1,
    origin: ConnectionOrigin = ConnectionOrigin(), negotiation: UpstreamNegotiation? = nil,
    protocols: OfferedProtocols = OfferedProtocols([])
  ) {
    self.negotiation = negotiation
    self.protocols = protocols
    self.context = context
    self.name = context == nil ? "" : name
    self.connection = connection
    self.origin = origin
    user = nil
  }

  package init(
    context: UpstreamTLSContext?, name: String, connection: UpstreamConnection,
    boundTo user: (any AnyObject & Sendable)?,
    origin: ConnectionOrigin = ConnectionOrigin(), negotiation: UpstreamNegotiation? = nil,
    protocols: OfferedProtocols = OfferedProtocols([])
  ) {
    self.negotiation = negotiation
    self.protocols = protocols
    self.origin = origin
    self.context = context
    self.connection = connection
    self.name = context == nil ? "" : name
    self.user = user
  }

  func isSame(as other: UpstreamTrust) -> Bool {
    self === other
      || (context === other.context && name == other.name && user === other.user && connection == other.connection
        && origin == other.origin && protocols == other.protocols)
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
