import COpenSSL
import Crypto
import Transport

/// What the configuration that was loaded last decides on the client of an open connection.
public enum ClientReview {
  /// Nothing that decides on clients has changed since the client was judged.
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

  /// Judges the client of an open connection by another generation, and changes nothing: the connection stays with the
  /// server block that its exchanges belong to. `refused` gets the reason, on the loop, if a responder of `ssl_ocsp`
  /// tells later that the client is revoked, or tells nothing.
  public func review(by chooser: ServerChooser, refused: @escaping (String) -> Void) -> ClientReview {
    guard case .server = side, !isClosed, hasChosen, let ssl else {
      return .refused(reason: "the client's handshake chose no server block")
    }
    guard let context = chooser.choose(serverName), !context.settings.rejectsHandshake else {
      return .refused(reason: "no server block takes the client's server name any more")
    }
    if serverContext?.clientPolicyDigest == context.clientPolicyDigest { return .unchanged(by: context) }
    var (verdict, denial) = judgement(of: ssl, by: Reverification(chooser: chooser, context: context))
    if let denial { return .denied(reason: denial, by: context) }
    if let check = context.statusCheck, case .verified(let chain) = verdict {
      let waiter = StreamWaiter(self), later = LoopBox(refused)
      let known = check.judge(chain) { [loop] answer in
        loop.post {
          guard let stream = waiter.take(), !stream.isClosed, case .refused(_, let reason) = answer else { return }
          later.value(reason)
        }
      }
      if case .refused(let code, let reason)? = known {
        verdict = .refused(chain.leaf, code: Int(code), reason: reason)
      }
    }
    return .judged(verdict, by: context)
  }

  /// Judges the client as a handshake with this server block would. What the connection knows of its client stays.
  private func judgement(
    of ssl: OpaquePointer, by other: Reverification
  ) -> (verdict: ClientVerdict, denial: String?) {
    guard other.context.settings.verification != .off, let leaf = copenssl_get0_peer_certificate(ssl) else {
      return (.absent, nil)
    }
    let former = (side, serverContext, judgedClient, purposelessChain, judgedAt, chainFaults, denial)
    let formerResult = SSL_get_verify_result(ssl)
    defer {
      (side, serverContext, judgedClient, purposelessChain, judgedAt, chainFaults, denial) = former
      SSL_set_verify_result(ssl, formerResult)
    }
    side = .server(other.chooser)
    serverContext = other.context
    denial = nil
    _ = isJudged(leaf, ssl, by: other.context)
    return (ClientVerdict(ssl: ssl, mode: other.context.settings.verification, client: judgedClient), denial)
  }

  /// Keeps the verdict when the new context would reach the same one; otherwise judges as a handshake would.
  func isJudgedAnew(_ ssl: OpaquePointer, by reverification: Reverification) -> Bool {
    let context = reverification.context
    let isSame = serverContext?.sessionContext == context.sessionContext
    side = .server(reverification.chooser)
    serverContext = context
    if isSame {
      if phase == .opening && !isAwaitingStatus {
        clientVerdict = ClientVerdict(ssl: ssl, mode: context.settings.verification, client: verifiedClient)
      }
      return true
    }
    // Responders are asked only during handshakes.
    guard context.statusCheck == nil || phase == .opening, !isAwaitingStatus else { return false }
    guard context.settings.verification != .off, let leaf = copenssl_get0_peer_certificate(ssl) else {
      clientVerdict = .absent
      return !context.settings.alertsWithoutCertificate
    }
    let isLetIn = isJudged(leaf, ssl, by: context)
    clientVerdict = ClientVerdict(ssl: ssl, mode: context.settings.verification, client: judgedClient)
    if isResumed { foundOrigin?.client = judgedClient }
    return isLetIn
  }

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
