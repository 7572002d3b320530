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
  /// `ssl_handshake_limit`: a client waited for its handshake.
  case handshakeWaited = "handshake_waited"
  /// `ssl_handshake_limit`: a handshake that took too long was ended for one that waited.
  case handshakeEnded = "handshake_ended"
  /// Many connections had ended, and the allocator gave memory back to the system.
  case memoryReturned = "memory_returned"
  /// A client was ended that sent too many KeyUpdate messages, or attempts to renegotiate.
  case messageFlood = "message_flood"
  /// `client_body_min_rate`: a client sent its body too slowly.
  case bodyTooSlow = "body_too_slow"
  /// `worker_connections`: a client was refused.
  case clientRefused = "client_refused"
}
