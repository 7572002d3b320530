import Observability
package import Transport

/// Work on a pool thread that an exchange waits for: passwords, enrolments, files, bodies. Client addresses take turns in
/// the pool, so guesses from one address don't delay clients at other addresses.
package enum PendingWork {
  /// Does `job` on a thread of the pool, and then `next` on the loop, unless the exchange has ended or gone on elsewhere
  /// meanwhile: a job that still waits is then withdrawn. The caller must do nothing after this, because the exchange may
  /// have ended.
  ///
  /// `place`: jobs of the same place are done one after the other; nil: the client's address. `outlives`: the job is done
  /// even if the exchange ends before it begins. Returns false if too much work waits already, so that `job` is never done.
  @discardableResult
  package static func run<Value: Sendable>(
    _ work: BlockingWork, for exchange: Exchange, at place: String? = nil, outlives: Bool = false,
    _ job: @escaping @Sendable () -> Value, _ next: @escaping (Exchange, Value) -> Void
  ) -> Bool {
    let box = LoopBox(Continuation(exchange, next))
    let (serial, loop) = (exchange.serial, exchange.worker.loop)
    return start(work, for: exchange, at: place, outlives) {
      let value = job()
      loop.post {
        guard let (exchange, next) = box.value.take(), serial == exchange.serial else { return }
        exchange.setPending(nil)
        next(exchange, value)
        exchange.noticeClientEnd()
      }
    }
  }

  /// What follows a job. The loop empties it, because a thread must not drop the last reference to what it holds.
  private final class Continuation<Value> {
    private var content: (exchange: Exchange, next: (Exchange, Value) -> Void)?
    init(_ exchange: Exchange, _ next: @escaping (Exchange, Value) -> Void) { content = (exchange, next) }
    func take() -> (exchange: Exchange, next: (Exchange, Value) -> Void)? { content.take() }
  }

  /// Starts work for an exchange, which keeps the ticket in `pending`. If too much work waits already, the response is
  /// an error. If the client has left and the work has to wait, the exchange ends.
  private static func start(
    _ work: BlockingWork, for exchange: Exchange, at place: String?, _ outlives: Bool,
    _ body: @escaping @Sendable () -> Void
  ) -> Bool {
    switch exchange.worker.shared.pool.run(work, for: place ?? party(exchange.clientAddress), body) {
    case .taken(let ticket, let waits):
      // The exchange withdraws what is pending when it ends.
      if !outlives { exchange.setPending(ticket) }
      guard waits else { return true }
      // The client's end came with its request, so no later event announces it.
      if exchange.stream?.hasClientLeft == true { exchange.clientDidLeave() } else { exchange.noticeClientEnd() }
      return true
    case .partyIsFull:
      let whose = place == nil ? "of one address" : "for one file"
      exchange.tellOfRepeated(.error, "too many \(work.things) \(whose) are waiting for their turn")
      exchange.refuse(429, retryAfter: 1)
    case .full:
      exchange.tellOfRepeated(.error, "too many \(work.things) are waiting for their turn")
      exchange.refuse(503, retryAfter: 1)
    }
    return false
  }

  /// The party whose passwords count and wait together: an IPv4 address, or the /64 network of an IPv6 address, because
  /// one household usually has a /64 network.
  package static func party(_ peer: SocketAddress) -> String { peer.party }
}

extension BlockingWork {
  /// What waits, for the log.
  fileprivate var things: String {
    switch self {
    case .passwords: "passwords"
    case .enrolments, .registers: "enrolments"
    case .fileTests: "questions about files"
    case .files: "files"
    case .bodies: "request bodies"
    case .requestNames, .reloadNames: "names"
    case .identities, .certificates: "certificates"
    case .stateFiles: "state files"
    case .pages: "pages"
    case .clientStatus, .staples: "questions to responders"
    case .revocationLists: "revocation lists"
    case .reload, .authorities, .orders, .keySets, .spans, .memory: "jobs"
    }
  }
}
