import Bytes
import Transport

/// When a connection may be ended although nothing is wrong with it.
extension ClientConnection {
  /// The worker goes: an idle connection ends, one that is about to ask may still do so.
  func endIfIdle() {
    if phase == .idle && input.isEmpty && reading == nil { end(lingers: false) }
  }

  /// The generation goes: by its policy nobody is judged any more, and no request is begun that was not whole.
  func endUnlessServing() {
    switch phase {
    case .opening: close()
    case .idle: end(lingers: false)
    case .exchanging, .tunnelling, .ending, .lingering, .closed: break
    }
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
