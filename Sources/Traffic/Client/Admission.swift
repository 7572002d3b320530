import Crypto
import Observability
package import TLS
import Transport

/// Whether a connection's client may make requests. The session settles this once, after the handshake, by the server
/// block that the handshake chose. For each request, `ClientSession.admits` checks the block that Host selects.
package enum Admission {
  /// The session doesn't know the client yet, and admits no request.
  case undecided
  case granted
  /// The client would be refused for this reason, but `ssl_verify_report_only` lets it in.
  case reported(reason: String)
  case refused(ErrorResponse, reason: String)
  /// The client speaks plain HTTP on a port of TLS, so that nothing is known of it. Each request is refused with 497.
  case inClear

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
    if context.settings.rejection == .reportOnly, case .refused(_, let reason) = self {
      self = .reported(reason: reason)
    }
  }

  private init(_ context: ServerTLSContext, _ verdict: ClientVerdict) {
    switch (context.settings.verification, verdict) {
    case (.on, .absent): self = .refused(.noCertificate, reason: "client sent no required SSL certificate")
    case (.off, _), (_, .absent), (_, .verified), (_, .pinned), (.optionalNoCA, .unverified): self = .granted
    case (_, .unverified(_, let reason)):
      self = .refused(.certificateError, reason: "client SSL certificate verify error: (\(reason))")
    case (_, .refused(let leaf, let code, let reason)):
      let meaning =
        context.pinWords(on: leaf, code: code) ?? OpenSSLMeaning.of(verification: code).map { ": \($0)" } ?? ""
      self = .refused(
        .certificateError, reason: "client SSL certificate verify error: (\(code):\(reason)\(meaning))")
    }
  }
}

extension Transaction {
  /// Whether the client may make requests: that of the connection, or the one that a front has sent the request for.
  package var admission: Admission { facts.relayed.map { $0.admission } ?? session.admission }

  /// Whether `ClientSession.report` may have something to say: each request asks, and a copy of the admission is dear.
  @inline(__always)
  final func mayBeReported(by session: ClientSession) -> Bool {
    if isRelayed { return true }
    return if case .reported = session.admission { true } else { false }
  }
}

extension ClientSession {
  /// Logs and counts a request or a session that was let in although its client would be refused.
  package func report(_ transaction: Transaction) {
    guard case .reported(let reason) = transaction.admission else { return }
    worker.counters.reports.count(.certificate)
    transaction.log(.notice, "report only: \(reason)\(transaction.facts.loggedClient)")
  }

  /// The server block whose pages and logs a refusal has, for a request to another one: that which has judged the client,
  /// as in nginx. `error_page` of the other one leads to locations that are for clients whom it has admitted. No block has
  /// judged a client in clear: its `error_page 497` is for clients whom nobody has admitted.
  package func judge(of exchange: Exchange, at server: LiveServer) -> LiveServer {
    if case .inClear = admission { return server }
    return exchange.isRelayed && !isRelayedAdmitted(exchange) ? server : firstServer
  }

  /// Returns the response to an exchange that `server` did not admit, and logs and counts the refusal.
  package func refusal(of exchange: Exchange, at server: LiveServer) -> ErrorResponse {
    let refusals = worker.counters.refusals
    let log = worker.shared.clientFaults
    switch exchange.admission {
    case .refused(let failure, let reason):
      refusals.count(.certificate)
      log.logRefusal(of: exchange, .certificate, .notice, reason)
      return failure
    case .inClear:
      // Counted with the handshakes, and folded as they are.
      let words = "client sent plain HTTP request to HTTPS port"
      if log.handshakes.note(.plainHTTP, of: exchange.clientAddress.host, now: worker.loop.now) {
        exchange.log(.info, words)
      } else {
        exchange.log(.debug, words)
      }
      return .plainRequestOnTLSPort
    case .undecided:
      log.logRefusal(of: exchange, .misdirected, .notice, "the client's handshake chose no server")
      return .certificateError
    case .granted, .reported:
      refusals.count(.misdirected)
      guard exchange.isRelayed || admits(at: server) else {
        log.logRefusal(
          of: exchange, .misdirected, .notice,
          "client attempted to request the server name different from the one that was negotiated")
        return .misdirected
      }
      log.logRefusal(
        of: exchange, .misdirected, .notice,
        "client attempted to request the server name for which the negotiated protocol is disabled")
      return .misdirected
    }
  }
}
