import COpenSSL
import Crypto
import Transport

/// The server block that takes a client over from another generation, and whose it is.
struct Successor {
  let chooser: ServerChooser
  let context: ServerTLSContext

  static let refusal = "the configuration that was loaded meanwhile does not let the client in"
}

extension TLSStream {
  /// Goes on under another generation: its server block judges the client, by its own anchors, lists and rules, before
  /// another byte is taken for a request. False when nobody takes it over; then it is to be closed.
  ///
  /// Why not closed at once: every changed file makes a generation, and clients that have just connected would see
  /// their connection die.
  public func move(to chooser: ServerChooser) -> Bool {
    guard let ssl, case .server = side else { return false }
    guard hasChosen else {
      // Nothing was read that a server block had a say in.
      side = .server(chooser)
      serverContext = chooser.initial
      return chooser.initial != nil
    }
    guard let context = chooser.choose(serverName), !context.settings.rejectsHandshake else { return false }
    let successor = Successor(chooser: chooser, context: context)
    if phase == .opening && !isAwaitingStatus {
      self.successor = successor
      return true
    }
    return isJudgedAnew(ssl, by: successor)
  }

  /// Takes the verdict over where it would be the same, or judges as the handshake would have.
  func isJudgedAnew(_ ssl: OpaquePointer, by successor: Successor) -> Bool {
    let context = successor.context
    let isSame = serverContext?.sessionContext == context.sessionContext
    side = .server(successor.chooser)
    serverContext = context
    if isSame {
      if phase == .opening && !isAwaitingStatus {
        clientVerdict = ClientVerdict(ssl: ssl, mode: context.settings.verification, chain: verifiedChain)
      }
      return true
    }
    // Responders are asked in handshakes only.
    guard context.statusCheck == nil || phase == .opening, !isAwaitingStatus else { return false }
    guard context.settings.verification != .off, let leaf = copenssl_get0_peer_certificate(ssl) else {
      clientVerdict = .absent
      return !context.settings.alertsWithoutCertificate
    }
    let isLetIn = isJudged(leaf, ssl, by: context)
    clientVerdict = ClientVerdict(ssl: ssl, mode: context.settings.verification, chain: judgedChain)
    if isResumed { foundOrigin?.chain = judgedChain }
    return isLetIn
  }

  /// As ssl_verify_cert_chain of OpenSSL does it, with what the client sent.
  private func isJudged(_ leaf: OpaquePointer, _ ssl: OpaquePointer, by context: ServerTLSContext) -> Bool {
    SSL_set_verify_result(ssl, Int(X509_V_ERR_UNSPECIFIED))
    guard let store = X509_STORE_CTX_new(), let sent = copenssl_sk_X509_new() else { return false }
    defer {
      X509_STORE_CTX_free(store)
      copenssl_sk_X509_free(sent)
      ERR_clear_error()
    }
    let chain = SSL_get_peer_cert_chain(ssl)
    for index in 0..<copenssl_sk_X509_num(chain) {
      _ = copenssl_sk_X509_push(sent, copenssl_sk_X509_value(chain, index))
    }
    let known = verifiedChain?.others ?? []
    for certificate in known { _ = copenssl_sk_X509_push(sent, certificate.handle) }
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
