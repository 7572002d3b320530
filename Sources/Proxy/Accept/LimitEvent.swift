/// What sallyport did to a client or a request because of a limit, for `sallyport_limits_total`.
public enum LimitEvent: String, CaseIterable, Sendable {
  /// `worker_connections`: a client was ended that had not finished its handshake, or made no request after it.
  case openingEnded = "opening_ended"
  /// `worker_connections`: an idle connection was ended, of a client that wasn't verified or to an upstream.
  case idleEnded = "idle_ended"
  /// `worker_connections`: a client was ended that wasn't verified, in its first head.
  case headEnded = "head_ended"
  /// `worker_connections`: an idle connection of a verified client was ended.
  case verifiedEnded = "verified_ended"
  /// `worker_connections`: new clients began to wait in the kernel's queue.
  case clientsWaited = "clients_waited"
  /// `worker_connections`: an attempt at an upstream waited for a place.
  case attemptWaited = "attempt_waited"
  /// `worker_connections`: a client was refused.
  case clientRefused = "client_refused"
}
