import Bytes
import HTTP
import Observability

/// The request's body as the client's connection hands it on: kept, or sent on as it comes, within its bounds.
extension Exchange {
  /// Bytes of the body may be fed now.
  var wantsBody: Bool {
    switch body {
    case .collecting, .streaming: true
    case .none, .held, .collected, .streamed: false
    }
  }

  var bodyTimeout: Int { location.limits.bodyTimeout }

  func requestBody(_ bytes: UnsafeRawBufferPointer) {
    bodyReceived &+= UInt64(bytes.count)
    let limit = location.limits.maxBodySize
    if limit > 0 && bodyReceived > limit {
      log(.error, "client intended to send too large chunked body: \(bodyReceived) bytes")
      return failDuringBody(Failure(413))
    }
    switch body {
    case .collecting(let kept):
      if let envelope = pass?.envelope, !hasRoom(for: bytes.count, in: kept, envelope) { return }
      do {
        try kept.append(bytes)
      } catch {
        tellOfRepeated(.crit, error.description)
        failDuringBody(Failure(500))
      }
    case .streaming: forwardBody(bytes)
    case .none, .held, .collected, .streamed: break
    }
  }

  func requestBodyIsInvalid(_ error: BodyError) {
    log(.info, "client sent an invalid body: \(error.reason)")
    failDuringBody(Failure(400))
  }

  func requestBodyDidEnd(trailers: Trailers?) {
    switch body {
    case .collecting(let kept):
      if let envelope = pass?.envelope { return openBody(kept, envelope) }
      body = .collected(kept)
      if case .enrolment(let desk) = location.action { return enrol(desk, with: kept) }
      retry()
    case .streaming:
      body = .streamed
      endForwardedBody(trailers)
    case .none, .held, .collected, .streamed: break
    }
  }
}
