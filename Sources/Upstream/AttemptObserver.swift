public import HTTP

/// Gets the events of one exchange's attempts. A class for the same reason as EventTarget.
///
/// Order: `attemptDidOpen`, `attemptHead` for each interim and the final response, `attemptBody`…, `attemptDidEnd`;
/// or `attemptDidFail` once, at any point. With the last call the stream lets go of the observer. The owner of the
/// observer must keep it until that call returns.
open class AttemptObserver {
  /// The final response's head, and before it those of interim responses. The observer owns it, so that a session that
  /// serves another attempt can't change it.
  public final let answer = ResponseHead()
  final var hasFinalHead = false
  /// The head of the final response to the present attempt; nil until it came.
  public final var finalHead: ResponseHead? { hasFinalHead ? answer : nil }
  public init() {}
  /// Clears the upstream's response, before the observer serves another client.
  public final func forgetAnswer() {
    guard hasFinalHead else { return }
    hasFinalHead = false
    answer.reset()
  }
  /// Send the request now.
  open func attemptDidOpen(_ stream: UpstreamStream) {}
  /// The attempt has a stream, on a kept session or on one that is opening.
  open func attemptDidBegin(_ stream: UpstreamStream) {}
  /// Return false to stop reading: the observer takes the rest as a tunnel, or has failed the attempt.
  open func attemptHead(_ head: ResponseHead) -> Bool { true }
  /// Bytes of the body, valid during the call only.
  open func attemptBody(_ bytes: UnsafeRawBufferPointer) {}
  /// The upstream says something to whoever reads the error log. Return false if that makes a response without a head a
  /// failure.
  open func attemptDidHear(_ text: UnsafeRawBufferPointer, from wire: UpstreamWire) -> Bool { true }
  /// The upstream has sent more of a body than its head announced. The rest is left out.
  open func attemptDidExceed() {}
  /// End of one burst of body bytes: decide whether to pause.
  open func attemptDidPump() {}
  open func attemptDidEnd(trailers: Trailers?) {}
  /// Comes instead of `attemptDidEnd` after `askAgain`: send the next request now. `stream`: nil if the session is
  /// closed and carries no other request.
  open func attemptMayAskAgain(_ stream: UpstreamStream?) {}
  open func attemptDidFail(_ failure: AttemptFailure) {}
  /// All bytes that waited for the upstream have gone out.
  open func attemptDidDrain() {}
  /// Tunnel only: bytes, and the end of the upstream's side. `inGoodOrder`: the upstream ended its side in an orderly
  /// way.
  open func tunnelBytes(_ bytes: UnsafeRawBufferPointer) {}
  open func tunnelDidEnd(inGoodOrder: Bool) {}
  /// `TCPUpstreamStream.allowance` is used up.
  open func tunnelAllowanceDidEnd() {}
}
