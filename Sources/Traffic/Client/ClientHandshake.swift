import Bytes
import Crypto
import Glibc
import HTTP
import Observability
import TLS
import Transport

extension ClientSession {
  /// Serves a client that speaks plain HTTP on a port of TLS: as in nginx, each request is refused with 497, which has the
  /// pages, the fields and the access log of the server block that its Host names.
  func serveInClear() {
    worker.counters.clients.count(.failed)
    worker.counters.handshakeCauses.count(.plainHTTP)
    facts.forgetTLS()
    admitOpened()
    serve(.http1)
  }

  /// Logs a failed handshake. `failure`: nil if the handshake took too long.
  func handshakeDidFail(_ failure: StreamFailure?, _ tls: TLSStream?) {
    guard let tls else { return }
    guard !tls.isHealthCheck else {
      // It has seen what it asked for: `ListenerCheck`.
      return firstServer.root.errorLog.debug("*\(facts.number) a handshake of sallyport health ended")
    }
    let counters = worker.counters
    counters.clients.count(.failed)
    let cause = tls.cause(of: failure)
    counters.handshakeCauses.count(cause)
    if let fault = tls.refusedCertificate { counters.certificateFaults.count(fault) }
    noteCertificate(of: tls)
    let reason = Self.reason(failure)
    let chosen = tls.serverContext.flatMap { live.server(of: $0) }
    let server = chosen ?? firstServer
    for watch in server.root.watches { watch.handshakeDidFail(self, cause, reason) }
    let (level, writes) = judgeFailure(tls, cause)
    guard server.root.errorLog.takes(writes ? level : .debug) else { return }
    let identity = tls.refusedClient?.loggedIdentity ?? ""
    var fields: [JournalField: String] = [:]
    if let certificate = tls.refusedClient {
      fields = (cause == .rule ? ClientRefusal.rule : .certificate).journalFields(reason, certificate)
      (fields[.client], fields[.server]) = (facts.peer.host, loggedName(of: server))
    }
    server.root.errorLog.log(
      writes ? level : .debug, fields: fields,
      "*\(facts.number) \(reason)\(identity) while SSL handshaking, client: \(facts.peer.host), "
        + "server: \(loggedName(of: server))")
  }

  /// Counts and tells of a client's certificate that needs attention. A resumed session shows none.
  func noteCertificate(of tls: TLSStream) {
    worker.shared.certificateRefusals.note(tls.countedVerdict)
    guard !tls.isResumed, let chain = facts.verifiedChain ?? tls.purposelessChain else { return }
    worker.clock.update()
    let now = worker.clock.seconds, leaf = chain.leaf
    for notice in CertificateNotice.all(of: leaf, live.generation.http.clientLimits.expiryNotice, now: now) {
      let issuer = leaf.issuer.rfc2253.cut(to: 256)
      worker.metrics.notices.count(notice, issuer: issuer, now: now)
      let server = tls.serverContext.flatMap { live.server(of: $0) } ?? firstServer
      let decision = worker.shared.faults.note(
        notice.summary, about: "CA \(issuer)", .none, .warn, server.root.errorLog, now: worker.loop.now)
      guard decision.writes else { continue }
      server.root.errorLog.log(
        .warn,
        "*\(facts.number) \(notice.words(of: leaf, now: now))\(leaf.loggedIdentity), "
          + "client: \(facts.peer.host), server: \(loggedName(of: server))")
    }
  }

  /// Describes the failure in nginx's words.
  private static func reason(_ failure: StreamFailure?) -> String {
    switch failure {
    case nil: "client timed out (110: Connection timed out)"
    case .truncated: "peer closed connection in SSL handshake"
    case .socket(let error):
      "peer closed connection in SSL handshake (\(error.code): \(String(cString: strerror(error.code))))"
    case .protocolError(let reason): reason
    }
  }
}

extension RequestHead {
  /// Whether the request is safe in early data (RFC 8470 §4): it has a safe method and no body, so a replay does no
  /// harm.
  var mayBeEarly: Bool { method.isSafe && framing == .none && first(.upgrade) == nil }
}
