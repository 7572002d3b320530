import Crypto
import Observability
import TLS
import Transport

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
    case .refused(let failure, let refusal, let reason):
      refusals.count(refusal)
      log.logRefusal(of: exchange, refusal, .notice, reason)
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
