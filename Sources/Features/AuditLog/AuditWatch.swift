import Audit
import Bytes
import Crypto
import Observability
import TLS
import Traffic
import Transport

/// `audit_log` of a server block in one worker: makes an event of whatever becomes of a client.
final class AuditWatch: ClientWatch {
  private let isRequired: Bool
  private let writer: AuditWriter

  init(_ settings: AuditSettings, _ writer: AuditWriter) {
    isRequired = settings.isRequired
    self.writer = writer
  }

  override func handshakeDidEnd(_ session: ClientSession) {
    guard let tls = session.tls else { return }
    let (verdict, reason) = Self.verdict(session)
    var event = event(.admission, session, tls.clientVerdict.certificate)
    event.add("verdict", verdict)
    event.add("reason", reason)
    event.add("resumed", tls.isResumed)
    guard !writer.take(event), isRequired else { return }
    // Nobody gets in whose line may never be written. If it is, another one says what became of the client.
    let words = "the audit log has no room for its line"
    session.log(.info, "the connection was closed: \(words)")
    var closing = self.event(.refusal, session, tls.clientVerdict.certificate)
    closing.add("verdict", "closed")
    closing.add("cause", "audit_log")
    closing.add("reason", words)
    writer.take(closing)
    writer.clientWasTurnedAway()
    session.cut()
  }

  override func handshakeDidFail(_ session: ClientSession, _ cause: HandshakeCause, _ reason: String) {
    switch cause {
    case .certificate, .rule, .noCertificate: break
    // Nobody has decided on the client.
    default: return
    }
    var event = event(.refusal, session, session.tls?.refusedClient)
    event.add("verdict", "refused")
    event.add("cause", cause.rawValue)
    event.add("reason", reason)
    writer.take(event)
  }

  override func clientWasRefused(
    _ transaction: Transaction, _ refusal: ClientRefusal, _ reason: String, isCut: Bool
  ) {
    var event = event(
      isCut ? .revocation : .refusal, transaction.session, transaction.facts.clientVerdict?.certificate)
    event.add("verdict", isCut ? "cut" : "refused")
    event.add("cause", refusal.rawValue)
    event.add("reason", reason)
    writer.take(event)
  }

  override func connectionDidEnd(_ session: ClientSession, _ reason: String) {
    var event = event(.revocation, session, session.tls?.clientVerdict.certificate)
    event.add("verdict", "closed")
    event.add("reason", reason)
    writer.take(event)
  }

  private func event(
    _ kind: AuditEvent.Kind, _ session: ClientSession, _ certificate: Certificate?
  ) -> AuditEvent {
    var event = AuditEvent(kind, at: AuditTime.now)
    event.add("connection", Int64(clamping: session.facts.number))
    event.add("client", session.facts.peer.host)
    event.add("server", session.loggedName(of: session.firstServer))
    guard let certificate else { return event }
    event.add("subject", certificate.subject.rfc2253)
    event.add("issuer", certificate.issuer.rfc2253)
    event.add("serial", certificate.serial)
    event.add("sha256", Hex.encode(certificate.sha256))
    return event
  }

  private static func verdict(_ session: ClientSession) -> (verdict: String, reason: String?) {
    switch session.admission {
    case .granted: ("let_in", session.facts.isVerified ? nil : "no certificate was verified")
    case .reported(let reason): ("reported", reason)
    case .refused(_, _, let reason): ("refused", reason)
    case .undecided: ("refused", "the client's handshake chose no server")
    case .inClear: ("refused", "plain HTTP")
    }
  }
}
