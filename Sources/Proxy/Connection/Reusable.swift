import Bytes
import TLS
import Transport

/// When a connection may be ended although nothing is wrong with it.
extension ClientConnection {
  /// The worker goes: an idle connection ends, one that is about to ask may still do so.
  func endIfIdle() {
    if phase == .idle && input.isEmpty && reading == nil { end(lingers: false) }
  }

  /// The generation goes. Who is in the midst of an exchange ends with it; everybody else is judged anew by the policy of
  /// the fresh one and goes on under it, or ends.
  func move(to fresh: LiveGeneration) {
    switch phase {
    case .exchanging, .tunnelling, .ending, .lingering, .closed: return
    case .opening, .idle: break
    }
    let heir = fresh.listeners.first {
      $0.settings.address == servers.settings.address && $0.settings.isTLS == servers.settings.isTLS
    }
    guard let heir, facts.tls?.move(to: heir) ?? true else { return phase == .opening ? close() : end(lingers: false) }
    live.clients -= 1
    fresh.clients += 1
    live = fresh
    servers = heir
    firstServer = heir.fallback
    hostChoice = HostChoice()
    facts.forget()
    guard phase == .idle else { return }
    admit()
    // One that has just connected is told why; who was let in until now and is not any more has been served.
    if case .refused = admission, requests > 0 { end(lingers: false) }
  }

  /// The connection is to end with the exchange that is under way.
  var isLeaving: Bool { worker.isDraining || live !== worker.live }

  /// Nothing is under way on it: it waits for a request, or has not sent a byte yet. Such a one may be ended for want of
  /// room (nginx's reusable connections).
  var isReusable: Bool {
    switch phase {
    case .idle: input.isEmpty && reading == nil && stream.pendingCount == 0
    case .opening: stream.wireBytesIn == 0
    case .exchanging, .tunnelling, .ending, .lingering, .closed: false
    }
  }
}
