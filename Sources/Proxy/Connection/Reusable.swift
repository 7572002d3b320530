import Bytes
import Transport

/// When a connection may be ended although nothing is wrong with it.
extension ClientConnection {
  /// For an idle connection when its generation or worker goes.
  func closeIfIdle() {
    if phase == .idle && input.isEmpty { close() }
  }

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
