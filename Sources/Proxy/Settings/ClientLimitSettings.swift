/// Limits of what all clients together may take (http level).
public struct ClientLimitSettings: Sendable, Hashable {
  /// Milliseconds that new clients wait while a worker has no place for them (`client_queue_timeout`); 0: they are
  /// refused at once.
  public var queueTimeout = 5000
  /// `ssl_handshake_limit`; nil: `HandshakeLimits.automatic`.
  public var handshakes: HandshakeLimits?
  public init() {}
}

/// TLS handshakes of one worker that may be under way.
public struct HandshakeLimits: Sendable, Hashable {
  public var total: Int
  /// Of one IPv4 address, or of the IPv6 addresses with the same first 64 bits.
  public var perAddress: Int

  public init(total: Int, perAddress: Int = .max) {
    self.total = max(1, total)
    self.perAddress = max(1, perAddress)
  }

  /// `connections`: `worker_connections`. Half of them may be in their handshake, and half of these from one address, so
  /// that another address finds a place. 1024 sessions of OpenSSL take 50 MiB.
  static func automatic(connections: Int) -> HandshakeLimits {
    let total = min(1024, max(2, connections / 2))
    return HandshakeLimits(total: total, perAddress: total / 2)
  }
}
