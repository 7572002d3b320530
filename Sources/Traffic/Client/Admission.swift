import Crypto
import Observability
package import TLS

/// Whether a connection's client may make requests. The session settles this once, after the handshake, by the server
/// block that the handshake chose. For each request, `ClientSession.admits` checks the block that Host selects.
package enum Admission {
  /// The session doesn't know the client yet, and admits no request.
  case undecided
  case granted
  /// The client would be refused for this reason, but `ssl_verify_report_only` lets it in.
  case reported(reason: String)
  case refused(ErrorResponse, ClientRefusal, reason: String)
  /// The client speaks plain HTTP on a port of TLS, so that nothing is known of it. Each request is refused with 497.
  case inClear

  /// The API denies the client's certificate for so many seconds.
  static func denied(for seconds: UInt64) -> Admission {
    let time = DurationWords.of(seconds: Int64(clamping: seconds))
    return .refused(.certificateError, .denial, reason: "the client's certificate is denied by the API for \(time)")
  }

  /// `tls`: nil on a listener without TLS, which admits every client.
  package init(_ tls: TLSStream?) {
    guard let tls else {
      self = .granted
      return
    }
    if tls.isInClear {
      self = .inClear
      return
    }
    guard let context = tls.serverContext else {
      self = .undecided
      return
    }
    self.init(of: tls.clientVerdict, by: context)
  }

  /// What a server block says to a client that it has judged.
  package init(of verdict: ClientVerdict, by context: ServerTLSContext) {
    self.init(context, verdict)
    if context.settings.rejection == .reportOnly, case .refused(_, _, let reason) = self {
      self = .reported(reason: reason)
    }
  }

  private init(_ context: ServerTLSContext, _ verdict: ClientVerdict) {
    switch (context.settings.verification, verdict) {
    case (.on, .absent):
      self = .refused(.noCertificate, .certificate, reason: "client sent no required SSL certificate")
    case (.off, _), (_, .absent), (_, .verified), (_, .pinned), (.optionalNoCA, .unverified): self = .granted
    case (_, .unverified(_, let reason)):
      self = .refused(
        .certificateError, .certificate, reason: "client SSL certificate verify error: (\(reason))")
    case (_, .refused(let leaf, let code, let reason, let culprit)):
      let meaning =
        context.pinWords(on: leaf, code: code) ?? OpenSSLMeaning.of(verification: code).map { ": \($0)" } ?? ""
      self = .refused(
        .certificateError, .certificate,
        reason: "client SSL certificate verify error: (\(code):\(reason)\(meaning))\(culprit?.words ?? "")")
    }
  }
}
