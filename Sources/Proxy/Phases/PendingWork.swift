import Observability
import Transport

/// Work on a pool thread that an exchange waits for: passwords, enrolments, files of `if`. Client addresses take turns in the pool,
/// so guesses from one address don't delay clients at other addresses.
enum PendingWork {
  /// Starts work for an exchange, which keeps the ticket in `pending`. If too much work waits already, the response is
  /// an error. If the client has left and the work has to wait, the exchange ends.
  static func start(_ work: BlockingWork, for exchange: Exchange, _ body: @escaping @Sendable () -> Void) {
    switch exchange.worker.shared.pool.run(work, for: party(exchange.clientAddress), body) {
    case .taken(let ticket, let waits):
      exchange.setPending(ticket)
      // The client's end came with its request, so no later event announces it.
      if waits, exchange.stream?.hasClientLeft == true { exchange.clientDidLeave() }
    case .partyIsFull:
      exchange.tellOfRepeated(.error, "too many \(work) of one address are waiting to be checked")
      exchange.refuse(429, retryAfter: 1)
    case .full:
      exchange.tellOfRepeated(.error, "too many \(work) are waiting to be checked")
      exchange.refuse(503, retryAfter: 1)
    }
  }

  /// The party whose passwords count and wait together: an IPv4 address, or the /64 network of an IPv6 address, because
  /// one household usually has a /64 network.
  static func party(_ peer: SocketAddress) -> String { peer.party }
}
