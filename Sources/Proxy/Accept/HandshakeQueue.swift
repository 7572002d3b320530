import Observability
import TLS
import Transport

/// Gives the clients of one worker their turns for TLS handshakes, by `HandshakeTurns`.
final class HandshakeQueue {
  private unowned let worker: Worker
  private var turns: HandshakeTurns
  /// The clients whose handshake is under way, and those that wait. Each leaves before its session is freed (`end`).
  private var clients: [UInt64: Client] = [:]
  private struct Client { unowned let session: ClientSession }
  private var toldAt: UInt64?

  init(_ worker: Worker) {
    self.worker = worker
    turns = HandshakeTurns(.automatic(connections: worker.budget.limit))
  }

  /// `limits`: nil if the configuration has none.
  func apply(_ limits: HandshakeLimits?) {
    wake(turns.apply(limits ?? .automatic(connections: worker.budget.limit), now: worker.loop.now))
  }

  func mayBegin(_ session: ClientSession) -> Bool {
    let number = session.facts.number
    let origin = HandshakeTurns.Origin(session.facts.proxyHeader?.source ?? session.facts.peer)
    switch turns.ask(number, origin, now: worker.loop.now) {
    case .begins:
      clients[number] = Client(session: session)
      return true
    case .waits:
      clients[number] = Client(session: session)
      worker.counters.limits.count(.handshakeWaited)
      tellOfWaiting()
      return false
    case .stillWaits: return false
    }
  }

  /// The handshake is over, or the client is gone before.
  func end(_ session: ClientSession) {
    guard clients.removeValue(forKey: session.facts.number) != nil else { return }
    wake(turns.end(session.facts.number, now: worker.loop.now))
  }

  private func wake(_ numbers: [UInt64]) {
    // Not within this call, which may come from anywhere.
    for number in numbers { if let client = clients[number] { worker.loop.again(client.session.transport) } }
  }

  /// Ends handshakes that have taken too long while others wait; called once a second. One that waits for sallyport, or
  /// whose client has sent bytes, stays.
  func endOverdue() {
    guard turns.isAwaited else { return }
    var ended = 0
    for number in turns.overdue(now: worker.loop.now) {
      guard let session = clients[number]?.session, session.tls?.waitsForOthers != true, session.cutUnlessSpeaking()
      else { continue }
      worker.counters.limits.count(.handshakeEnded)
      ended += 1
    }
    guard ended > 0 else { return }
    worker.tellOfRepeated(.warn, "handshakes that stood still were ended for clients that wait (ssl_handshake_limit)")
  }

  private func tellOfWaiting() {
    if let toldAt, worker.loop.now &- toldAt < 1000 { return }
    toldAt = worker.loop.now
    worker.tellOfRepeated(.warn, "clients wait for their TLS handshake (ssl_handshake_limit)")
  }
}
