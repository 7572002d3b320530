import Observability
import Transport

/// Work beside the loop that an exchange waits for: passwords and enrolments. The pool takes turns between the clients'
/// addresses, so that guesses from one address keep no other waiting.
enum PendingWork {
  /// Has work done for an exchange, which keeps its ticket in `pending`; or answers the exchange when too much waits
  /// already, or when the client left before its turn.
  static func start(_ work: BlockingWork, for exchange: Exchange, _ body: @escaping @Sendable () -> Void) {
    switch exchange.worker.shared.pool.run(work, for: party(exchange.facts.peer), body) {
    case .taken(let ticket, let waits):
      exchange.setPending(ticket)
      // The request came with its client's end, of which no later event tells.
      if waits, exchange.stream?.hasClientLeft == true { exchange.clientDidLeave() }
    case .partyIsFull:
      exchange.log(.error, "too many \(work) of this address are waiting to be checked")
      exchange.refuse(429, retryAfter: 1)
    case .full:
      exchange.log(.error, "too many \(work) are waiting to be checked")
      exchange.refuse(503, retryAfter: 1)
    }
  }

  /// Whose passwords count and wait together: an IPv4 address, or the /64 network of an IPv6 address, as one household
  /// has it.
  static func party(_ peer: SocketAddress) -> String {
    guard case .ipv6(let high, _, _) = peer, high != 0 else { return peer.host }
    return "\(String(high, radix: 16))/64"
  }
}
