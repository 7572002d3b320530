import Observability
import TLS
import Transport

/// Gives the clients of one worker their turns for TLS handshakes, by `HandshakeTurns`.
final class HandshakeQueue {
  private unowned let worker: Worker
  private var turns = HandshakeTurns(HandshakeLimits())
  /// The clients whose handshake is under way, and those that wait.
  private var clients: [UInt64: Unowned] = [:]
  private struct Unowned { unowned let session: ClientSession }

  init(_ worker: Worker) { self.worker = worker }

  func apply(_ limits: HandshakeLimits) { turns.limits = limits }

  func mayBegin(_ session: ClientSession) -> Bool {
    let number = session.facts.number
    let isKnown = clients[number] != nil
    let origin = HandshakeTurns.Origin(session.facts.proxyHeader?.source ?? session.facts.peer)
    if !isKnown { clients[number] = Unowned(session: session) }
    let may = turns.mayBegin(number, origin, now: worker.loop.now)
    if !may, !isKnown { worker.counters.limits.count(.handshakeWaited) }
    return may
  }

  /// The handshake is over, or the client is gone before.
  func end(_ session: ClientSession) {
    guard clients.removeValue(forKey: session.facts.number) != nil else { return }
    for next in turns.end(session.facts.number, now: worker.loop.now) {
      // Not within this call, which may come from anywhere.
      if let next = clients[next]?.session { worker.loop.again(next.transport) }
    }
  }

  /// Ends handshakes that have taken too long while others wait; called once a second.
  func endOverdue() {
    guard turns.isAwaited else { return }
    for number in turns.overdue(now: worker.loop.now) {
      guard let session = clients[number]?.session, session.cutUnlessSpeaking() else { continue }
      worker.counters.limits.count(.handshakeEnded)
    }
  }
}
