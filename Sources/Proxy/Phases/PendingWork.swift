import Observability
import Transport

/// Work beside the loop that an exchange waits for: passwords and enrolments. In turns by address, so that nobody's guesses
/// keep others waiting.
struct PendingWork {
  private let work: FairWork<String>
  private let ticket: FairWork<String>.Ticket

  /// Of all loops: hashes are work for the processor.
  static let passwords = FairWork<String>("passwords", lanes: 2, limit: 512, partyLimit: 32)
  /// Enrolments also make keys and wait for the authority's lock: lanes of their own, so that no password waits for them.
  static let enrolments = FairWork<String>("enrolments", lanes: 2, limit: 512, partyLimit: 32)

  func withdraw() { work.withdraw(ticket) }

  /// Has work done for an exchange, which keeps it in `pending`; or answers the exchange when too much waits already, or when
  /// the client left before its turn. `what`: its plural, for the log.
  static func start(
    _ work: FairWork<String>, _ what: String, for exchange: Exchange, _ body: @escaping @Sendable () -> Void
  ) {
    switch work.run(for: party(exchange.facts.peer), body) {
    case .taken(let ticket, let waits):
      exchange.pending = PendingWork(work: work, ticket: ticket)
      // The request came with its client's end, of which no later event tells.
      if waits, exchange.stream?.hasClientLeft == true { exchange.clientDidLeave() }
    case .partyIsFull:
      exchange.log(.error, "too many \(what) of this address are waiting to be checked")
      exchange.refuse(429, retryAfter: 1)
    case .full:
      exchange.log(.error, "too many \(what) are waiting to be checked")
      exchange.refuse(503, retryAfter: 1)
    }
  }

  /// Whose passwords count and wait together: an IPv4 address, or a network of IPv6 as one household has it.
  static func party(_ peer: SocketAddress) -> String {
    guard case .ipv6(let high, _, _) = peer, high != 0 else { return peer.host }
    return "\(String(high, radix: 16))/64"
  }
}
