/// Limits of what all clients together may take (http level).
public struct ClientLimitSettings: Sendable, Hashable {
  /// Milliseconds that new clients wait while a worker has no place for them (`client_queue_timeout`); 0: they are
  /// refused at once.
  public var queueTimeout = 5000
  public init() {}
}
