public import HTTP

/// Whom an attempt tells what its server says. One exchange; a class for the same reason as EventTarget.
///
/// Order: `attemptDidOpen`, `attemptHead` for each interim and the final response, `attemptBody`…, `attemptDidEnd`;
/// or `attemptDidFail` once, at any point. The connection is gone from the observer with the last call.
open class AttemptObserver {
  public init() {}
  /// Send the request now.
  open func attemptDidOpen(_ connection: UpstreamConnection) {}
  /// A server was chosen, and counts as tried; a connection may or may not come of it.
  open func attemptWillTry(_ server: Int) {}
  /// There is a connection, kept or on its way to open.
  open func attemptDidBegin(_ connection: UpstreamConnection) {}
  /// Return false to stop reading: the observer takes the rest as a tunnel, or has failed the attempt.
  open func attemptHead(_ head: ResponseHead) -> Bool { true }
  /// Bytes of the body, valid during the call only.
  open func attemptBody(_ bytes: UnsafeRawBufferPointer) {}
  /// End of one burst of body bytes: decide whether to pause.
  open func attemptDidPump() {}
  open func attemptDidEnd(trailers: Trailers?) {}
  /// In the place of `attemptDidEnd`, after `askAgain`: send the next request now; nil: the connection can't carry one,
  /// and is gone.
  open func attemptMayAskAgain(_ connection: UpstreamConnection?) {}
  open func attemptDidFail(_ failure: AttemptFailure) {}
  /// What waited for the upstream has gone out.
  open func attemptDidDrain() {}
  /// Tunnel only: bytes, and the end of the upstream's side. `inGoodOrder`: the upstream itself said that this is all.
  open func tunnelBytes(_ bytes: UnsafeRawBufferPointer) {}
  open func tunnelDidEnd(inGoodOrder: Bool) {}
}
