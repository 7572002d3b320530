import Observability
import TLS

/// Whether a connection's client may make requests. The session settles this once, after the handshake, by the server
/// block that the handshake chose. For each request, `ClientSession.admits` checks the block that Host selects.
enum Admission {
  /// The session doesn't know the client yet, and admits no request.
  case undecided
  case granted
  case refused(ErrorResponse, reason: String)

  /// `tls`: nil on a listener without TLS, which admits every client.
  init(_ tls: TLSStream?) {
    guard let tls else {
      self = .granted
      return
    }
    guard let context = tls.serverContext else {
      self = .undecided
      return
    }
    switch (context.settings.verification, tls.clientVerdict) {
    case (.on, .absent): self = .refused(.noCertificate, reason: "client sent no required SSL certificate")
    case (.off, _), (_, .absent), (_, .verified), (.optionalNoCA, .unverified): self = .granted
    case (_, .unverified(_, let reason)):
      self = .refused(.certificateError, reason: "client SSL certificate verify error: (\(reason))")
    case (_, .refused(_, let code, let reason)):
      self = .refused(.certificateError, reason: "client SSL certificate verify error: (\(code):\(reason))")
    }
  }
}

extension ClientSession {
  /// Returns the response to an exchange that was not admitted, and logs and counts the refusal.
  func refusal(of exchange: Exchange) -> ErrorResponse {
    let refusals = worker.metrics.refusals
    switch admission {
    case .refused(let failure, let reason):
      refusals.count(.certificate)
      exchange.log(.info, reason + facts.loggedClient)
      return failure
    case .undecided:
      exchange.log(.info, "the client's handshake chose no server")
      return .certificateError
    case .granted:
      refusals.count(.misdirected)
      exchange.log(.info, "client attempted to request the server name different from the one that was negotiated")
      return .misdirected
    }
  }
}
