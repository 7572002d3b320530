import Crypto
import Identity
import Observability
import TLS
import Traffic
import Transport

/// `ssl_verify_candidate` of a server block in one worker: compares what both trusts say of each client that a handshake
/// judges.
final class CandidateWatch: ClientWatch {
  /// The candidate's access rules; nil: it has none.
  private let rules: ClientRules?
  private let tally: CandidateTally

  init(_ rules: ClientRules?, _ tally: CandidateTally) {
    self.rules = rules
    self.tally = tally
  }

  override func handshakeDidEnd(_ session: ClientSession) {
    guard let tls = session.tls, let context = tls.serverContext else { return }
    // What the API denies is no word of this trust.
    let today = Admission(of: tls.clientVerdict, by: context).objection ?? session.firstServer.root.denial(of: session)
    compare(today, session, tls.clientVerdict.certificate)
  }

  override func handshakeDidFail(_ session: ClientSession, _ cause: HandshakeCause, _ reason: String) {
    switch cause {
    case .certificate, .rule, .noCertificate: compare(reason, session, session.tls?.refusedClient)
    // Nobody has judged the client.
    default: break
    }
  }

  /// `today`: why the trust that decides objects to the client; nil: it doesn't.
  private func compare(_ today: String?, _ session: ClientSession, _ certificate: Certificate?) {
    guard let tls = session.tls, let candidate = tls.serverContext?.candidate else { return }
    let next = objection(tls.verdict(beside: candidate), candidate, session)
    let difference = CandidateDifference(today: today, next: next)
    guard let reason = difference == .wouldRefuse ? next : today, difference != .same else { return tally.count() }
    let who = certificate.map { $0.subject.rfc2253.cut(to: 256) } ?? "a client without a certificate"
    tally.count(difference, who, reason)
    let writes = session.worker.shared[CandidateCounts.self].log.note(
      difference, of: session.facts.peer.host, now: session.worker.loop.now)
    session.log(
      writes ? .info : .debug,
      "the candidate trust \(difference.words): \(reason)\(certificate?.loggedIdentity ?? "")")
  }

  /// Why the candidate would object to a client; nil: it wouldn't.
  private func objection(_ verdict: ClientVerdict, _ candidate: ServerTLSContext, _ session: ClientSession) -> String? {
    if let objection = Admission(of: verdict, by: candidate).objection { return objection }
    guard let rules,
      case .denied(let place, let reason) = rules.judge(
        ClientRules.Client(verdict), scratch: session.worker.patternScratch)
    else { return nil }
    return ClientRules.message(place, reason)
  }
}

extension Admission {
  /// What is wrong with the client, also where that is only reported; nil: nothing.
  fileprivate var objection: String? {
    switch self {
    case .granted: nil
    case .reported(let reason), .refused(_, _, let reason): reason
    case .undecided, .inClear: "nobody has judged the client"
    }
  }
}

extension LiveLocation {
  fileprivate func denial(of session: ClientSession) -> String? {
    denial(of: session.facts, scratch: session.worker.patternScratch)
  }
}

/// What two trusts say of one client.
enum CandidateDifference: String, CaseIterable, Sendable {
  case same
  /// The client gets in, and would not.
  case wouldRefuse = "would_refuse"
  /// The client is refused, and would get in.
  case wouldAdmit = "would_admit"

  /// `today`, `next`: why the trust that decides, and the candidate, object to the client; nil: it doesn't.
  init(today: String?, next: String?) {
    self =
      switch (today, next) {
      case (nil, nil), (_?, _?): .same
      case (nil, _?): .wouldRefuse
      case (_?, nil): .wouldAdmit
      }
  }

  var words: String {
    switch self {
    case .same: "agrees"
    case .wouldRefuse: "would refuse a client that gets in"
    case .wouldAdmit: "would let in a client that is refused"
    }
  }
}
