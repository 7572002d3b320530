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

/// The server block of another generation that a connection moves to, and the chooser it belongs to.
package struct Reverification {
  let chooser: ServerChooser
  let context: ServerTLSContext

  /// Why a connection ended, for the log.
  package static let refusal = "the configuration that was loaded meanwhile does not let the client in"
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
    let reverification = Reverification(chooser: chooser, context: context)
    if phase == .opening && !isAwaitingStatus {
      self.reverification = reverification
      return true
    }
    return isJudgedAnew(ssl, by: reverification)
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
    var (verdict, denial) = judgement(of: ssl, by: Reverification(chooser: chooser, context: context))
    if let denial { return .denied(reason: denial, by: context) }
    var answersEnd = Int64.max
    if let check = context.statusCheck, case .verified(let chain) = verdict {
      switch ask(check, chain, answered) {
      case .refused(let code, let reason)?: verdict = .refused(chain.leaf, code: Int(code), reason: reason)
      case .good(let end)?: answersEnd = end
      case nil: break
      }
    }
    judgementEnd = judgementEnd(of: verdict, ssl, by: context, answersEnd: answersEnd)
    return .judged(verdict, by: context)
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

  /// Judges the client as a handshake with this server block would. What the connection knows of its client stays.
  private func judgement(
    of ssl: OpaquePointer, by other: Reverification
  ) -> (verdict: ClientVerdict, denial: String?) {
    guard other.context.settings.verification != .off, let leaf = copenssl_get0_peer_certificate(ssl) else {
      return (.absent, nil)
    }
    let former = (side, serverContext, judgedClient, purposelessChain, judgedAt, chainFaults, denial)
    let formerResult = SSL_get_verify_result(ssl), formerReason = chainReason
    defer {
      (side, serverContext, judgedClient, purposelessChain, judgedAt, chainFaults, denial) = former
      chainReason = formerReason
      SSL_set_verify_result(ssl, formerResult)
    }
    side = .server(other.chooser)
    serverContext = other.context
    denial = nil
    _ = isJudged(leaf, ssl, by: other.context)
    let verdict = ClientVerdict(
      ssl: ssl, mode: other.context.settings.verification, client: judgedClient, fault: chainReason)
    return (verdict, denial)
  }

  /// Keeps the verdict when the new context would reach the same one, and nothing of it has ended; otherwise judges as a
  /// handshake would.
  func isJudgedAnew(_ ssl: OpaquePointer, by reverification: Reverification) -> Bool {
    let context = reverification.context, now = Int64(time(nil))
    let isSame = serverContext?.sessionContext == context.sessionContext
    side = .server(reverification.chooser)
    serverContext = context
    if isSame, phase == .opening || !isJudgementOver(at: now) {
      if phase == .opening && !isAwaitingStatus {
        clientVerdict = ClientVerdict(
          ssl: ssl, mode: context.settings.verification, client: verifiedClient, fault: chainReason)
      }
      return true
    }
    guard !isAwaitingStatus, context.workload.fault(at: now) == nil else { return false }
    guard context.settings.verification != .off, let leaf = copenssl_get0_peer_certificate(ssl) else {
      clientVerdict = .absent
      judgementEnd = .max
      return !context.settings.alertsWithoutCertificate
    }
    let isLetIn = isJudged(leaf, ssl, by: context)
    clientVerdict = ClientVerdict(
      ssl: ssl, mode: context.settings.verification, client: judgedClient, fault: chainReason)
    if isResumed { foundOrigin?.client = judgedClient }
    return (phase == .opening || isKnownToResponders(ssl, context)) && isLetIn
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

  /// Verifies as OpenSSL's ssl_verify_cert_chain does, with the certificates that the client sent.
  private func isJudged(_ leaf: OpaquePointer, _ ssl: OpaquePointer, by context: ServerTLSContext) -> Bool {
    let chain = SSL_get_peer_cert_chain(ssl)
    var sent = (0..<copenssl_sk_X509_num(chain)).compactMap { copenssl_sk_X509_value(chain, $0) }
    // The chain keeps these alive during the call.
    let known = verifiedClient?.chain?.others ?? []
    sent += known.map(\.handle)
    return isJudged(leaf, sending: sent, ssl, by: context)
  }

  /// Verifies a leaf with the certificates that came with it, and leaves the result in `ssl`.
  func isJudged(
    _ leaf: OpaquePointer, sending others: [OpaquePointer], _ ssl: OpaquePointer, by context: ServerTLSContext
  ) -> Bool {
    SSL_set_verify_result(ssl, Int(X509_V_ERR_UNSPECIFIED))
    guard let store = X509_STORE_CTX_new(), let sent = copenssl_sk_X509_new() else { return false }
    defer {
      X509_STORE_CTX_free(store)
      // A kept chain may have put its own certificates in place of some, so the stack has a reference for each, as
      // OpenSSL's own stack in a handshake has.
      copenssl_sk_X509_pop_free(sent)
      keepReplaced(nil)
      ERR_clear_error()
    }
    for certificate in others {
      X509_up_ref(certificate)
      guard copenssl_sk_X509_push(sent, certificate) > 0 else {
        X509_free(certificate)
        return false
      }
    }
    guard X509_STORE_CTX_init(store, context.verificationStore, leaf, sent) == 1,
      X509_STORE_CTX_set_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx(), UnsafeMutableRawPointer(ssl)) == 1,
      X509_STORE_CTX_set_default(store, "ssl_client") == 1
    else { return false }
    X509_STORE_CTX_set_depth(store, Int32(truncatingIfNeeded: context.settings.verifyDepth))
    let isLetIn = Self.judgeClient(store, nil) == 1
    SSL_set_verify_result(ssl, Int(X509_STORE_CTX_get_error(store)))
    return isLetIn
  }
}
