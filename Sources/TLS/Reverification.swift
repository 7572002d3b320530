import COpenSSL
import Crypto
import Glibc
import Transport

/// What the configuration that was loaded last decides on the client of an open connection.
public enum ClientReview {
  /// Nothing that decides on clients has changed since the client was judged, and nothing of it has ended.
  case unchanged(by: ServerTLSContext)
  /// This server block has judged the client's certificates as in a handshake.
  case judged(ClientVerdict, by: ServerTLSContext)
  /// The access rules of this server block would refuse the client in its handshake, for this reason.
  case denied(reason: String, by: ServerTLSContext)
  /// No server block would complete a handshake with the client.
  case refused(reason: String)
}

extension ClientPolicy {
  /// Why a connection ended that another generation's policy lets in no more, for the log.
  static let refusal = "the configuration that was loaded meanwhile does not let the client in"
}

extension TLSStream {
  /// Moves the connection to another generation. Its server block verifies the client again, by its own anchors, CRLs
  /// and access rules, before the server reads another byte as a request. Returns false when no server block accepts
  /// the client; the caller then closes the connection.
  ///
  /// The server does not close such connections outright: every changed file makes a generation, and clients that had
  /// just connected would lose their connections.
  public func move(to chooser: ServerChooser) -> Bool {
    guard case .server = side, !isClosed else { return false }
    // It has no server block, and ends with its handshake.
    if answersChallenge { return true }
    guard hasChosen, let ssl else {
      // The ClientHello is not read yet, so no server block has been chosen.
      side = .server(chooser)
      serverContext = chooser.initial
      return chooser.initial != nil
    }
    guard let context = chooser.choose(serverName), !context.settings.rejectsHandshake else { return false }
    let policy = ClientPolicy(context: context, chooser: chooser)
    if phase == .opening && !isAwaitingStatus {
      laterPolicy = policy
      return true
    }
    return isJudgedAnew(ssl, by: policy)
  }

  /// Judges the client of an open connection by the generation that serves, and changes only `judgementEnd`: the
  /// connection stays with the server block that its exchanges belong to. If a responder of `ssl_ocsp` must be asked,
  /// `answered` gets its decision later, on the loop: why the client is refused, also for want of an answer; nil: it
  /// isn't.
  public func review(by chooser: ServerChooser, answered: @escaping (String?) -> Void) -> ClientReview {
    guard case .server = side, !isClosed, hasChosen, let ssl else {
      return .refused(reason: "the client's handshake chose no server block")
    }
    guard let context = chooser.choose(serverName), !context.settings.rejectsHandshake else {
      return .refused(reason: "no server block takes the client's server name any more")
    }
    let now = Int64(time(nil))
    if serverContext?.clientPolicyDigest == context.clientPolicyDigest, !isJudgementOver(at: now) {
      return .unchanged(by: context)
    }
    judgementEnd = .max
    if let fault = context.workload.fault(at: now) { return .refused(reason: fault) }
    let judgement = judged(ssl, by: ClientPolicy(context: context, chooser: chooser), at: now)
    if let denial = judgement.denial { return .denied(reason: denial, by: context) }
    judgementEnd = judgement.validUntil
    guard let check = context.statusCheck, case .verified(let chain) = judgement.verdict else {
      return .judged(judgement.verdict, by: context)
    }
    switch ask(check, chain, answered) {
    case .refused(let code, let reason)?:
      judgementEnd = .max
      return .judged(.refused(chain.leaf, code: Int(code), reason: reason), by: context)
    case .good(let end)?: judgementEnd = Self.end(judgementEnd, answersEnd: end, at: now)
    case nil: break
    }
    return .judged(judgement.verdict, by: context)
  }

  /// Asks the responders about the client of an open connection. Returns what the cache knows; nil: `answered` gets the
  /// decision later.
  private func ask(
    _ check: ClientStatusCheck, _ chain: VerifiedChain, _ answered: @escaping (String?) -> Void
  ) -> StatusVerdict? {
    let waiter = StreamWaiter(self), later = LoopBox(answered)
    return check.judge(chain) { [loop] answer in
      loop.post {
        guard let stream = waiter.take(), !stream.isClosed else { return }
        switch answer {
        case .refused(_, let reason): later.value(reason)
        case .good(let end):
          let soonest = Int64(time(nil)).addingReportingOverflow(1).partialValue
          stream.judgementEnd = min(stream.judgementEnd, max(end, soonest))
          later.value(nil)
        }
      }
    }
  }

  /// What another policy, of a context that decides nothing here, would say of the client now: also of one whose handshake
  /// was refused, and of one whose session was resumed. Nothing of the connection changes. Of responders, only answers that
  /// are known count.
  package func verdict(beside context: ServerTLSContext) -> ClientVerdict {
    let policy = ClientPolicy(context: context, chooser: nil), now = Int64(time(nil))
    let verdict: ClientVerdict
    if let leaf = refusedChain.first {
      verdict = ClientJudge.judge(leaf, sent: Array(refusedChain.dropFirst()), at: now, by: policy).verdict
    } else if let ssl, context.settings.verification != .off, let leaf = copenssl_get0_peer_certificate(ssl) {
      // Not what the trust that decides has added to the chain: the client doesn't send that. A resumed session has but the
      // certificates of the verified chain, whose last one is a CA of that trust.
      let sent = judgement == nil ? verifiedClient?.chain?.others.dropLast() ?? [] : Self.sent(by: ssl).dropFirst()
      verdict =
        ClientJudge.judge(Certificate(retaining: leaf), sent: Array(sent), at: now, by: policy).verdict
    } else {
      verdict = .absent
    }
    guard let check = context.statusCheck, case .verified(let chain) = verdict,
      case .refused(let code, let reason)? = check.known(chain)
    else { return verdict }
    return .refused(chain.leaf, code: Int(code), reason: reason)
  }

  /// Judges the client as a handshake with this server block would. What the connection knows of its client stays.
  private func judged(_ ssl: OpaquePointer, by policy: ClientPolicy, at now: Int64) -> ClientJudgement {
    guard policy.context.settings.verification != .off, let handle = copenssl_get0_peer_certificate(ssl) else {
      return .absent(at: now)
    }
    let leaf = Certificate(retaining: handle), chain = SSL_get_peer_cert_chain(ssl)
    let sent = (0..<max(0, copenssl_sk_X509_num(chain))).compactMap { index in
      copenssl_sk_X509_value(chain, index).map { Certificate(retaining: $0) }
    }
    // A session that was resumed has the client's other certificates no more.
    return ClientJudge.judge(leaf, sent: sent + (verifiedClient?.chain?.others ?? []), at: now, by: policy)
  }

  /// The verdict at the end of a handshake. That of a session that was resumed is by what the session keeps.
  func handshakeVerdict(_ ssl: OpaquePointer) -> ClientVerdict {
    if let judgement { return judgement.verdict }
    let mode = serverContext?.settings.verification ?? .off
    guard mode != .off, let peer = copenssl_get0_peer_certificate(ssl) else { return .absent }
    return ClientVerdict(
      of: Certificate(retaining: peer), code: SSL_get_verify_result(ssl), mode: mode, client: verifiedClient)
  }

  /// Keeps the verdict when the new context would reach the same one, and nothing of it has ended; otherwise judges as a
  /// handshake would.
  func isJudgedAnew(_ ssl: OpaquePointer, by policy: ClientPolicy) -> Bool {
    let context = policy.context, now = Int64(time(nil))
    let isSame = serverContext?.sessionContext == context.sessionContext
    if let chooser = policy.chooser { side = .server(chooser) }
    serverContext = context
    if isSame, phase == .opening || !isJudgementOver(at: now) {
      if phase == .opening && !isAwaitingStatus { clientVerdict = handshakeVerdict(ssl) }
      return true
    }
    guard !isAwaitingStatus, context.workload.fault(at: now) == nil else { return false }
    guard context.settings.verification != .off, copenssl_get0_peer_certificate(ssl) != nil else {
      clientVerdict = .absent
      judgementEnd = .max
      return !context.settings.alertsWithoutCertificate
    }
    let judgement = judged(ssl, by: policy, at: now)
    self.judgement = judgement
    clientVerdict = judgement.verdict
    SSL_set_verify_result(ssl, Int(judgement.code))
    if !judgement.isLetIn { refused(copenssl_get0_peer_certificate(ssl)) }
    return (phase == .opening || isKnownToResponders(ssl, context)) && judgement.isLetIn
  }

  /// Settles the verdict on the client of an open connection without a request in progress, and its end, by what
  /// responders have answered before. Returns false if one would have to be asked: that is done in handshakes, and for
  /// requests in progress.
  private func isKnownToResponders(_ ssl: OpaquePointer, _ context: ServerTLSContext) -> Bool {
    guard let check = context.statusCheck, case .verified(let chain) = clientVerdict else {
      noteJudgementEnd(ssl)
      return true
    }
    switch check.known(chain) {
    case nil: return false
    case .good(let end)?: noteJudgementEnd(ssl, answersEnd: end)
    case .refused(let code, let reason)?:
      clientVerdict = .refused(chain.leaf, code: Int(code), reason: reason)
      judgementEnd = .max
    }
    return true
  }

  /// Takes the verdict by which the requests in progress of an open connection were refused, so that whatever is still
  /// told of its client says so.
  public func take(_ verdict: ClientVerdict) { if isOpen { clientVerdict = verdict } }
}
