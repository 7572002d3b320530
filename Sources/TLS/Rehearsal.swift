import COpenSSL
package import Crypto
import Glibc
package import Transport

/// Why a rehearsed handshake would fail.
package struct RehearsedFailure {
  package let cause: HandshakeCause
  package let reason: String

  init(_ cause: HandshakeCause, _ reason: String) {
    self.cause = cause
    self.reason = reason
  }
}

extension TLSStream {
  /// Stands in for the handshake of a client, for `sallyport check --explain`: chooses the server block for `name`, and
  /// judges the certificates with the code of a handshake. Nothing proves that anybody has the key of `certificates`.
  /// Asks no OCSP responder. Blocks while it loads certificates that the handshake would load. `local` and `peer`: the
  /// addresses that the connection would have. Returns why the handshake would fail; nil if it would succeed.
  package func rehearse(
    _ name: [UInt8], showing certificates: [Certificate], local: SocketAddress?, peer: SocketAddress
  ) -> RehearsedFailure? {
    guard let ssl = session(), case .server(let chooser) = side else {
      return RehearsedFailure(.internal, "the session can't be made")
    }
    guard let context = chooser.choose(name) else {
      return RehearsedFailure(.unknownName, "no server block can be chosen for this name")
    }
    guard !context.settings.rejectsHandshake else {
      return RehearsedFailure(.unknownName, "the server block rejects handshakes (ssl_reject_handshake)")
    }
    if let fault = context.workload.fault(at: Int64(time(nil))) {
      return RehearsedFailure(.noServerCertificate, fault)
    }
    hasChosen = true
    serverName = name
    serverContext = context
    guard SSL_get_SSL_CTX(ssl) == context.handle || context.adopt(ssl) else {
      return RehearsedFailure(.internal, OpenSSLReasons.words())
    }
    if let names = context.names {
      do throws(NamedCertificateFault) {
        let wanted = try names.wanted(by: HandshakeFacts(serverName: name, local: local, peer: peer))
        if let fault = Self.present(try names.store.loadNow(wanted).get(), on: ssl) {
          return RehearsedFailure(.noServerCertificate, fault.reason)
        }
      } catch {
        return RehearsedFailure(.noServerCertificate, error.reason)
      }
    }
    guard context.settings.verification != .off, let leaf = certificates.first else {
      clientVerdict = .absent
      return context.settings.alertsWithoutCertificate
        ? RehearsedFailure(.noCertificate, "the client sent no required certificate") : nil
    }
    let judgement = ClientJudge.judge(
      leaf, sent: Array(certificates.dropFirst()), at: Int64(time(nil)),
      by: ClientPolicy(context: context, chooser: chooser))
    self.judgement = judgement
    clientVerdict = judgement.verdict
    if judgement.isLetIn { return nil }
    if let denial = judgement.denial { return RehearsedFailure(.rule, denial) }
    return RehearsedFailure(.certificate, OpenSSLMeaning.text(verification: Int(judgement.code)))
  }

  /// The CA at which the client's chain ends, once it has verified; nil for a client that is itself a trust anchor.
  package var clientAnchor: Certificate? { judgement?.verdict.client?.chain?.others.last }

  /// The certificate that the rehearsed handshake would present, if it would load it; nil otherwise.
  package var rehearsedCertificate: Certificate? {
    guard serverContext?.names != nil, let ssl, let shown = SSL_get_certificate(ssl) else { return nil }
    return Certificate(retaining: shown)
  }

  /// Whether a handshake would ask OCSP responders about a client that verified.
  package var asksResponders: Bool { serverContext?.statusCheck != nil }
}
