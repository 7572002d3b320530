public import Negotiation
public import Traffic
import Transport
import Upstream

/// What `stream` says of a `proxy_pass`, besides what it shares with `http`.
public struct TCPPassSettings: Sendable {
  /// Milliseconds without a byte in either direction (`proxy_timeout`).
  public var timeout = 600_000
  /// Bytes that may wait for either side (`proxy_buffer_size`).
  public var bufferSize = 16 * 1024
  public var uploadRate: Template?
  public var downloadRate: Template?
  /// `proxy_ssl_alpn` with variables, each a name; empty: the TLS settings have the names.
  public var offeredProtocols: [Template] = []
  /// `proxy_half_close`
  public var keepsHalfOpen = false
  /// What is said to the upstream before its protocol.
  public var opening: UpstreamOpening?
  /// Whether clients get the greeting of the upstream: sallyport has read it for itself.
  public var passesGreeting = false
}

extension UpstreamPass {
  /// How a connection that no client is behind asks for TLS. A greeting without TLS is left to whoever reads it.
  package var negotiationOfOwnConnections: UpstreamNegotiation? {
    guard let opening = tcp?.opening, opening.goal == .tls else { return nil }
    return UpstreamNegotiation(opening.kind, goal: .tls, name: Sockets.hostName)
  }
}

/// What is said to an upstream before its protocol.
public struct UpstreamOpening: Sendable, Hashable {
  public var kind: NegotiatedProtocol
  public var goal: UpstreamNegotiation.Goal

  public init(kind: NegotiatedProtocol, goal: UpstreamNegotiation.Goal) {
    self.kind = kind
    self.goal = goal
  }

  /// The protocol in whose words TLS is asked for; nil: TLS isn't asked for.
  package var asked: String? { goal == .tls ? kind.rawValue : nil }
}
