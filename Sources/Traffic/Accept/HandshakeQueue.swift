import Observability
import TLS
import Transport

/// Gives the clients of one worker their turns for TLS handshakes, by `HandshakeTurns`.
package final class HandshakeQueue {
  private unowned let worker: Worker
  private var turns = HandshakeTurns(total: 1, perAddress: 1)
  /// The clients whose handshake is under way, and those that wait.
  private var clients: [UInt64: Unowned] = [:]
  private struct Unowned { unowned let session: ClientSession }
  /// The handshakes whose next step can be done.
  private var line = HandshakeLine()
  /// The client whose step is done now.
  private var current: UInt64?
  private lazy var turn = Turn(self)

  /// Microseconds of handshakes between two looks at the events of connections: these go before handshakes.
  private static let budget: UInt64 = 3000

  package init(_ worker: Worker) { self.worker = worker }

  /// Gets the loop's turn after a batch of events.
  private final class Turn: EventTarget {
    private unowned let queue: HandshakeQueue

    init(_ queue: HandshakeQueue) {
      self.queue = queue
      super.init(loop: queue.worker.loop)
    }

    override func again() { queue.advance() }
  }

  /// Whether the client's handshake may do its next step within this call. Otherwise it does after the events that have
  /// come for others.
  func mayAdvance(_ session: ClientSession) -> Bool {
    let number = session.facts.number
    if current == number { return true }
    line.add(number, HandshakeTurns.Origin(session.facts.proxyHeader?.source ?? session.facts.peer))
    worker.loop.again(turn)
    return false
  }

  private func advance() {
    let begin = MonotonicClock.microseconds
    var now = begin
    while now &- begin < Self.budget, let (number, origin) = line.next(now: worker.loop.now) {
      guard let session = clients[number]?.session else { continue }
      current = number
      session.transport.resumeOpening()
      worker.loop.cork.flush()
      current = nil
      let end = MonotonicClock.microseconds
      line.spend(end &- now, of: origin, now: worker.loop.now)
      now = end
    }
    if !line.isEmpty { worker.loop.again(turn) }
  }

  /// The total is never more than half of `worker_connections`, which clients in their handshake may not exceed either.
  package func apply(_ limits: HandshakeLimits) {
    let total = max(1, min(limits.total, worker.budget.limit / 2))
    let perAddress = limits.perAddress ?? max(1, total / 2)
    resume(turns.limit(total: total, perAddress: perAddress, now: worker.loop.now))
  }

  func isWaiting(_ session: ClientSession) -> Bool { turns.isWaiting(session.facts.number) }

  /// Whether the client waits in a line that is too long (`HandshakeTurns.crowds`).
  func crowds(_ session: ClientSession) -> Bool { turns.crowds(session.facts.number) }

  /// When the client's turn came; nil if it hasn't come, or the handshake is over.
  func turnCame(for session: ClientSession) -> UInt64? { turns.turnCame(for: session.facts.number) }

  func mayBegin(_ session: ClientSession) -> Bool {
    let number = session.facts.number
    let isKnown = clients[number] != nil
    let origin = HandshakeTurns.Origin(session.facts.proxyHeader?.source ?? session.facts.peer)
    if !isKnown { clients[number] = Unowned(session: session) }
    let may = turns.mayBegin(number, origin, now: worker.loop.now)
    if !may, !isKnown {
      let writes = worker.note(.handshakeWaited, of: session.facts.peer)
      session.log(writes ? .info : .debug, "client waits for its handshake (ssl_handshake_limit)")
    }
    return may
  }

  /// The handshake is over, or the client is gone before.
  package func end(_ session: ClientSession) {
    guard clients.removeValue(forKey: session.facts.number) != nil else { return }
    resume(turns.end(session.facts.number, now: worker.loop.now))
  }

  private func resume(_ begun: [UInt64]) {
    for number in begun {
      // Not within this call, which may come from anywhere.
      if let next = clients[number]?.session { worker.loop.again(next.transport) }
    }
  }

  /// Ends handshakes that have taken too long while others wait; called once a second.
  func endOverdue() {
    guard turns.isAwaited else { return }
    for number in turns.overdue(now: worker.loop.now) {
      guard let session = clients[number]?.session, session.isHandshakeClients, session.cutUnlessSpeaking() else {
        continue
      }
      worker.counters.limits.count(.handshakeEnded)
    }
  }
}
