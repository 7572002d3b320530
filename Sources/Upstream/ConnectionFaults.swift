import HTTP
import TLS
import Transport

/// What an end of a connection says.
extension UpstreamConnection {
  func inputDidEnd(inGoodOrder: Bool) {
    switch phase {
    case .awaitingHead: fail(brokenReason.map { .broken($0) } ?? .closedBeforeHead)
    case .readingBody:
      if inGoodOrder && decoder.atEndOfStream() == .complete {
        responseDidEnd()
      } else {
        fail(.invalidBody(brokenReason ?? "upstream prematurely closed connection"))
      }
    case .tunnel: observer?.tunnelDidEnd(inGoodOrder: inGoodOrder)
    case .opening, .idle, .closed: close()
    }
  }

  /// Why the stream ended, when it was by more than the peer's leaving.
  var brokenReason: String? {
    switch stream.failure {
    case .tls(let reason): reason
    case .socket(let error): error.description
    case .truncated, nil: nil
    }
  }

  /// That a kept connection had ended says nothing of its server; that nothing came over it in time does.
  func saysNothing(_ failure: AttemptFailure) -> Bool {
    switch failure {
    case .closedBeforeHead, .broken: isKept && bytesReceived == 0
    default: false
    }
  }
}
