public import Crypto

/// Limits of what all clients together may take (http level).
public struct ClientLimitSettings: RowSettings, Sendable, Hashable {
  /// Milliseconds that new clients wait while a worker has no place for them (`client_queue_timeout`); 0: they are
  /// refused at once.
  public var queueTimeout = 5000
  public var handshakes = HandshakeLimits()
  /// When to tell that a certificate or a revocation list ends (`ssl_expiry_warning`).
  public var expiryNotice = ExpiryNotice.standard
  public init() {}
}

/// `ssl_handshake_limit`: TLS handshakes of one worker that may be under way.
public struct HandshakeLimits: Sendable, Hashable {
  public var total = 1024
  /// Of one IPv4 address, or of the IPv6 addresses with the same first 64 bits.
  /// nil: half of all.
  public var perAddress: Int?
  public init() {}
}
