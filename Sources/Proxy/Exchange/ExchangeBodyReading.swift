import HTTP
import Observability

/// How the request's body is asked for, and what becomes of an invalid one.
extension Exchange {
  func requestBodyIsInvalid(_ error: BodyError) {
    log(.info, "client sent an invalid body: \(error.reason)")
    failDuringBody(ErrorResponse(400))
  }

  /// Collects the body until it is complete. The handler gets `requestBodyDidEnd`, perhaps before this returns.
  func collectBody(in kept: RequestBody) {
    setBody(.collecting(kept))
    continueClient()
    stream?.resumeBody()
  }

  /// Passes the body to the handler as it arrives, perhaps before this returns.
  func streamBody() {
    setBody(.streaming)
    continueClient()
    stream?.resumeBody()
  }

  /// Sends one 100 to a client that waits for it, when the handler wants the body (RFC 9110 §10.1.1).
  private func continueClient() {
    if head.expectsContinue { stream?.sendInterim(100) }
  }
}
