import Observability
public import TLS

/// What a feature does when it is known what becomes of a client: it counts, records or tells. It judges nobody, but may cut
/// a session that it can't record. One object serves all clients of a server block in one worker (`LocationParts.watches` of
/// the block's own level).
///
/// A block without any tests an empty array once for each connection, and nothing for a request.
open class ClientWatch {
  public init() {}

  /// A handshake is over, and the session's admission is settled: the client got in, or reads in a response why it didn't.
  /// `session.facts` has its chain, and the one that a resumed session was made with.
  open func handshakeDidEnd(_ session: ClientSession) {}

  /// A handshake has failed. `session.tls?.refusedChain` has the certificates of a client that was refused; it is empty if the
  /// handshake failed for another reason.
  open func handshakeDidFail(_ session: ClientSession, _ cause: HandshakeCause, _ reason: String) {}

  /// A front has sent the certificate of a client with a request, and the server block of the request has judged it. Each
  /// request of the client says so, and nothing else of the request has run.
  open func clientWasRelayed(_ exchange: Exchange, _ client: RelayedClient) {}

  /// A request or a session of `stream` was refused for its client. `isCut`: it had begun, and its client is let in no more.
  open func clientWasRefused(_ transaction: Transaction, _ refusal: ClientRefusal, _ reason: String, isCut: Bool) {}

  /// An idle connection was closed, because its client is let in no more.
  open func connectionDidEnd(_ session: ClientSession, _ reason: String) {}
}

extension ClientSession {
  /// Tells of the end of a handshake.
  func tellWatches() { for watch in firstServer.root.watches { watch.handshakeDidEnd(self) } }

  /// Tells and logs that an idle connection is closed for its client.
  func idleClientIsRefused(_ reason: String, words: String) {
    log(.info, "the idle connection was closed: \(words)")
    for watch in firstServer.root.watches { watch.connectionDidEnd(self, reason) }
  }
}
