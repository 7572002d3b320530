import Bytes
import COpenSSL
import Crypto
import Glibc
import Transport

/// The callbacks that OpenSSL calls. Each finds its stream through the SSL. A callback must not throw or trap.
extension TLSStream {
  /// SSL_CTX_set_client_hello_cb. OpenSSL has the whole ClientHello, however it was fragmented (CVE-2026-32305). It has
  /// chosen neither version nor session yet, so a session can't cross server blocks (CVE-2025-23419).
  static let chooseServer: SSL_client_hello_cb_fn = { ssl, alert, _ in
    guard let ssl, let stream = TLSStream.of(ssl), case .server(let chooser) = stream.side else {
      return SSL_CLIENT_HELLO_ERROR
    }
    if let mark = chooser.healthMark, mark.isIn(ssl) { stream.isHealthCheck = true }
    guard let name = ServerNameExtension.read(from: ssl) else {
      alert?.pointee = SSL_AD_DECODE_ERROR
      stream.handshakeCause = .unknownName
      return SSL_CLIENT_HELLO_ERROR
    }
    // After a HelloRetryRequest, OpenSSL calls again and does not compare the names. RFC 8446 §4.1.2 forbids a changed
    // name. It would put a client that one server block's CAs verified under the policy of another.
    guard !stream.hasChosen || name == stream.serverName else {
      alert?.pointee = SSL_AD_ILLEGAL_PARAMETER
      return SSL_CLIENT_HELLO_ERROR
    }
    if let challenge = chooser.challenges?.context(for: name, ssl) {
      // A second ClientHello makes no challenge of a handshake that has a server block.
      guard !stream.hasChosen || stream.answersChallenge, challenge.adopt(ssl) else {
        alert?.pointee = SSL_AD_ILLEGAL_PARAMETER
        return SSL_CLIENT_HELLO_ERROR
      }
      stream.hasChosen = true
      stream.serverName = name
      stream.serverContext = nil
      stream.answersChallenge = true
      return SSL_CLIENT_HELLO_SUCCESS
    }
    guard !stream.answersChallenge else {
      alert?.pointee = SSL_AD_ILLEGAL_PARAMETER
      return SSL_CLIENT_HELLO_ERROR
    }
    guard let context = chooser.choose(name), !context.settings.rejectsHandshake else {
      alert?.pointee = SSL_AD_UNRECOGNIZED_NAME
      stream.handshakeCause = .unknownName
      return SSL_CLIENT_HELLO_ERROR
    }
    // Every handshake of this server block would lack a certificate, or the bundles that judge its clients.
    if let fault = context.workload.fault(at: Int64(time(nil))) {
      alert?.pointee = SSL_AD_INTERNAL_ERROR
      stream.handshakeCause = .noServerCertificate
      stream.workloadFault = fault
      // For the log, which names the server block.
      stream.serverContext = context
      return SSL_CLIENT_HELLO_ERROR
    }
    stream.hasChosen = true
    stream.serverName = name
    stream.serverContext = context
    if SSL_get_SSL_CTX(ssl) != context.handle && !context.adopt(ssl) {
      alert?.pointee = SSL_AD_INTERNAL_ERROR
      return SSL_CLIENT_HELLO_ERROR
    }
    return SSL_CLIENT_HELLO_SUCCESS
  }

  /// SSL_CTX_set_cert_verify_callback for clients. Accepts every certificate towards OpenSSL: the session keeps the
  /// verdict, and the server answers over HTTP, as nginx does. Under `ssl_verify_reject handshake` a refusal becomes an
  /// alert.
  static let judgeClient: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { store, _ in
    guard let store, let stream = TLSStream.of(TLSStream.ssl(of: store)) else { return 0 }
    stream.judgedClient = nil
    stream.purposelessChain = nil
    // The chosen server block requested the certificate, so there is a context.
    guard let context = stream.serverContext else { return 0 }
    X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(store), context.chainLevel)
    let now = Int64(time(nil))
    stream.judgedAt = now
    if let pins = context.pinsAlone {
      stream.judge(by: pins, store, context)
      return stream.answer(store, context)
    }
    // OpenSSL never calls this for a resumed TLS 1.3 session, so this is a full handshake.
    let key = VerifiedChainCache.Key(store)
    if let key, let known = context.verifiedChains.find(key, now: now) {
      stream.judgedClient = .chain(known.chain)
      X509_STORE_CTX_set_error(store, X509_V_OK)
      stream.checkPins(store, context)
      let answer = stream.answer(store, context)
      if answer == 1 { stream.keepReplaced(known.sent.replace(in: X509_STORE_CTX_get0_untrusted(store))) }
      return answer
    }
    stream.searchChain(store, context)
    if let key, let chain = stream.judgedClient?.chain, X509_STORE_CTX_get_error(store) == X509_V_OK {
      let sent = SharedCertificates(X509_STORE_CTX_get0_untrusted(store), in: chain)
      context.verifiedChains.keep(
        chain, sent: sent, for: key, judgementEnd: context.judgementEnd(of: now), now: now)
    }
    stream.checkPins(store, context)
    return stream.answer(store, context)
  }

  /// Judges the client by pins where there is no CA to verify a chain by.
  private func judge(by pins: ClientPins, _ store: OpaquePointer, _ context: ServerTLSContext) {
    // A failure without a reason must not look like success.
    X509_STORE_CTX_set_error(store, X509_V_ERR_UNSPECIFIED)
    guard let leaf = X509_STORE_CTX_get0_cert(store) else { return }
    switch pins.judge(leaf: leaf, level: context.chainLevel, purpose: context.settings.clientPurpose) {
    case .success(let client):
      judgedClient = client
      X509_STORE_CTX_set_error(store, X509_V_OK)
    case .failure(let fault): X509_STORE_CTX_set_error(store, fault.code)
    }
  }

  /// Refuses a client that no pin matches, although its chain verified, or needn't (`optional_no_ca`). A fault of the chain
  /// is told first.
  private func checkPins(_ store: OpaquePointer, _ context: ServerTLSContext) {
    guard let pins = context.pins else { return }
    let verdict = X509_STORE_CTX_get_error(store)
    guard verdict == X509_V_OK || context.excuses(verdict) else { return }
    let isPinned =
      if let chain = judgedClient?.chain {
        pins.match(chain)
      } else {
        X509_STORE_CTX_get0_cert(store).map { pins.pins.matches(leaf: Certificate(retaining: $0)) } ?? false
      }
    if isPinned { return }
    judgedClient = nil
    X509_STORE_CTX_set_error(store, ClientPins.mismatch)
  }

  /// Verifies the client's chain. Sets `judgedClient` if it is verified, and else the error in the store.
  private func searchChain(_ store: OpaquePointer, _ context: ServerTLSContext) {
    chainFaults = ChainFaults()
    chainReason = nil
    if let bundles = context.bundles { return searchChain(store, bundles, context) }
    guard context.settings.verification == .optionalNoCA else {
      X509_STORE_CTX_set_verify_cb(store, TLSStream.walkPastMissingList)
      let result = X509_verify_cert(store)
      let settled = context.settle(store, result: result, chainFaults)
      Self.nameFaultOfLoneLeaf(store)
      judgedClient = settled.verified.map { .chain($0) }
      if let chain = settled.purposeless { purposelessChain = chain }
      return
    }
    X509_STORE_CTX_set_verify_cb(store, TLSStream.walkOn)
    let result = X509_verify_cert(store)
    let verdict = chainFaults.verdict(result: result, last: X509_STORE_CTX_get_error(store))
    X509_STORE_CTX_set_error(store, verdict)
    if verdict == X509_V_OK, context.isRevokedByEndedList(X509_STORE_CTX_get0_chain(store)) {
      X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REVOKED)
    } else if verdict == X509_V_OK {
      judgedClient = VerifiedChain(X509_STORE_CTX_get0_chain(store)).map { .chain($0) }
    }
  }

  /// Names the fault of a client that sends a leaf without an issuer as nginx does, which goes on past the first fault to
  /// "unable to verify the first certificate": a `map` on `$ssl_client_verify` may name it.
  private static func nameFaultOfLoneLeaf(_ store: OpaquePointer) {
    guard X509_STORE_CTX_get_error(store) == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
      copenssl_sk_X509_num(X509_STORE_CTX_get0_chain(store)) == 1
    else { return }
    X509_STORE_CTX_set_error(store, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE)
  }

  /// Verifies the client's SVID by the bundle of its trust domain. The settings never combine this with `optional_no_ca`.
  private func searchChain(_ store: OpaquePointer, _ bundles: TrustBundles, _ context: ServerTLSContext) {
    guard let leaf = X509_STORE_CTX_get0_cert(store) else {
      return X509_STORE_CTX_set_error(store, X509_V_ERR_UNSPECIFIED)
    }
    let verification = ChainVerification(
      depth: context.settings.verifyDepth, level: context.chainLevel,
      use: .client(context.settings.clientPurpose))
    switch bundles.find(leaf: leaf, sent: X509_STORE_CTX_get0_untrusted(store), by: verification) {
    case .verified(let chain):
      judgedClient = .chain(chain)
      X509_STORE_CTX_set_error(store, X509_V_OK)
    case .faulty(let fault):
      // OpenSSL's own words are those of the code.
      chainReason = fault.text == OpenSSLMeaning.text(verification: Int(fault.code)) ? nil : fault.text
      X509_STORE_CTX_set_error(store, fault.code == X509_V_OK ? X509_V_ERR_UNSPECIFIED : fault.code)
    case .unseen: X509_STORE_CTX_set_error(store, X509_V_ERR_UNSPECIFIED)
    }
  }

  /// Returns what OpenSSL gets as the result for a client: 0 makes OpenSSL send an alert for the error in the store.
  private func answer(_ store: OpaquePointer, _ context: ServerTLSContext) -> Int32 {
    guard context.settings.rejection == .handshake else { return 1 }
    let verdict = X509_STORE_CTX_get_error(store)
    guard verdict == X509_V_OK || context.excuses(verdict) else {
      refused(X509_STORE_CTX_get0_cert(store))
      return 0
    }
    denial = rulesDenial(of: judgedClient, by: context)
    if denial == nil { return 1 }
    refused(X509_STORE_CTX_get0_cert(store))
    // The alert is bad_certificate: OpenSSL has no verify error that it maps to access_denied.
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED)
    return 0
  }

  func rulesDenial(of client: VerifiedClient?, by context: ServerTLSContext) -> String? {
    guard context.settings.rules != nil, case .server(let chooser) = side else { return nil }
    return chooser.denial(of: client, by: context)
  }

  /// X509_STORE_CTX_set_verify_cb: continues past a missing CRL, so that a revoked CA is told as revoked, as in nginx. Also
  /// past a leaf that is not one for clients, because the metrics tell by whom such leaves were issued, and only a chain
  /// that verified in all else says that.
  private static let walkPastMissingList: @convention(c) (Int32, OpaquePointer?) -> Int32 = { isFine, store in
    guard isFine == 0 else { return 1 }
    guard let store, let stream = TLSStream.of(TLSStream.ssl(of: store)) else { return 0 }
    let fault = X509_STORE_CTX_get_error(store)
    if RevocationList.excusesRoot(fault, in: store) {
      X509_STORE_CTX_set_error(store, X509_V_OK)
      return 1
    }
    if ClientPurpose.concernsLeaf(fault, in: store) {
      // No fault came before this one: each other one ends the walk, or comes later. One that comes later is told.
      stream.chainFaults.notePurpose()
      X509_STORE_CTX_set_error(store, X509_V_OK)
      return 1
    }
    return stream.chainFaults.goesOn(past: fault) ? 1 : 0
  }

  /// X509_STORE_CTX_set_verify_cb under `optional_no_ca`: continues past each fault, as nginx does.
  private static let walkOn: @convention(c) (Int32, OpaquePointer?) -> Int32 = { isFine, store in
    guard let store, let stream = TLSStream.of(TLSStream.ssl(of: store)) else { return 0 }
    guard isFine == 0 else { return 1 }
    let fault = X509_STORE_CTX_get_error(store)
    if RevocationList.excusesRoot(fault, in: store)
      || stream.serverContext?.settings.clientPurpose.excuses(fault, in: store) == true
    {
      // The fault that was excused before, for which the client is unverified, stays.
      X509_STORE_CTX_set_error(store, stream.chainFaults.lastExcused)
    } else {
      stream.chainFaults.note(fault)
    }
    return 1
  }

  /// SSL_CTX_set_cert_verify_callback for upstreams: refuses within the handshake.
  static let judgeUpstream: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { store, _ in
    guard let store, let stream = TLSStream.of(TLSStream.ssl(of: store)),
      case .client(let context, let name, _) = stream.side
    else { return 0 }
    let leaf = X509_STORE_CTX_get0_cert(store)
    stream.take(context.judge(leaf: leaf, sent: X509_STORE_CTX_get0_untrusted(store), name: name))
    guard case .refused(let refusal) = stream.trustResult else {
      X509_STORE_CTX_set_error(store, X509_V_OK)
      return 1
    }
    stream.refused(leaf)
    X509_STORE_CTX_set_error(store, refusal.alertCode)
    return 0
  }

  private static func ssl(of store: OpaquePointer) -> OpaquePointer? {
    X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()).map { OpaquePointer($0) }
  }

  /// Returns whether the server may keep a session for the client. A refused client gets no session.
  func leavesSession(_ ssl: OpaquePointer, _ context: ServerTLSContext) -> Bool {
    let verdict = Int32(truncatingIfNeeded: SSL_get_verify_result(ssl))
    return (verdict == X509_V_OK || context.excuses(verdict)) && rulesDenial(of: verifiedClient, by: context) == nil
  }

  /// SSL_CTX_sess_set_new_cb: returning 1 keeps the reference.
  static let keepSession: @convention(c) (OpaquePointer?, OpaquePointer?) -> Int32 = { ssl, session in
    guard let ssl, let session, let stream = TLSStream.of(ssl), let context = stream.serverContext,
      let store = context.store
    else { return 0 }
    guard stream.leavesSession(ssl, context), let origin = stream.sessionOrigin(ssl, context) else { return 0 }
    store.insert(session, origin: origin, lifetime: context.settings.sessionTimeout)
    return 1
  }

  /// SSL_CTX_sess_set_get_cb: OpenSSL owns the returned reference.
  static let findSession:
    @convention(c) (OpaquePointer?, UnsafePointer<UInt8>?, Int32, UnsafeMutablePointer<Int32>?) -> OpaquePointer? = {
      ssl, id, count, copy in
      copy?.pointee = 0
      guard let stream = TLSStream.of(ssl), let context = stream.serverContext, let store = context.store,
        let found = store.take(
          id, count: Int(count), serverName: stream.serverName, ofName: context.names != nil, at: stream.moment)
      else { return nil }
      // The session may come from another server block, where these rules did not judge the client.
      guard found.origin.proof.remaining(of: context.settings.sessionTimeout, at: stream.moment) > 0,
        stream.rulesDenial(of: found.origin.client, by: context) == nil
      else {
        SSL_SESSION_free(found.session)
        return nil
      }
      stream.foundOrigin = found.origin
      return found.session
    }

  /// SSL_CTX_set_tlsext_status_cb: returns the response for the certificate that the server presents.
  static let staple: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { ssl, _ in
    guard let ssl, let stream = TLSStream.of(ssl), let shown = SSL_get_certificate(ssl),
      let staple = stream.serverContext?.staples.first(where: { $0.question.certificate.handle == shown }),
      let der = staple.current(at: Int64(time(nil))), let copy = copenssl_malloc(der.count)
    else { return SSL_TLSEXT_ERR_NOACK }
    der.withUnsafeBytes {
      UnsafeMutableRawPointer(copy).copyMemory(from: $0.baseAddress ?? .init(copy), byteCount: der.count)
    }
    guard copenssl_set_status_response(ssl, copy, Int32(der.count)) == 1 else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    return SSL_TLSEXT_ERR_OK
  }

  static let keepUpstreamSession: @convention(c) (OpaquePointer?, OpaquePointer?) -> Int32 = { ssl, session in
    guard let session, let stream = TLSStream.of(ssl), case .client(let context, _, let key) = stream.side else {
      return 0
    }
    let now = stream.loop.now
    context.keep(session, for: key, provenAt: stream.isResumed ? stream.provenAt ?? now : now)
    return 1
  }

  /// Returns what a later resumption needs. Returns nil when the session must not be resumed: a certificate by which
  /// the client was judged has an expiry date that can't be read.
  ///
  /// If nothing verified the client, the expiry dates of the sent certificates count. A resumed session keeps the expiry that
  /// was computed in its full handshake.
  func sessionOrigin(_ ssl: OpaquePointer, _ context: ServerTLSContext) -> SessionStore.Origin? {
    let certificatesEnd: Int64?, proof: KeyProof
    if isResumed {
      guard let foundOrigin else { return nil }
      certificatesEnd = foundOrigin.judgementEnd
      proof = foundOrigin.proof
    } else {
      proof = KeyProof(at: moment)
      let judged: [Certificate]
      switch judgedClient {
      case .chain(let chain): judged = [chain.leaf] + chain.others
      // A pin of a key has no end, and the dates that the certificate gives count for nothing.
      case .pin: judged = []
      case nil: judged = Self.sent(by: ssl)
      }
      switch CertificateTime.earliest(judged.map(\.notAfter)) {
      case nil: certificatesEnd = nil
      case .at(let end): certificatesEnd = end
      case .unreadable: return nil
      }
    }
    let anchorsEnd = context.judgementEnd(of: judgedAt ?? Int64(time(nil)))
    return SessionStore.Origin(
      client: verifiedClient, judgementEnd: [certificatesEnd, anchorsEnd].compactMap { $0 }.min(),
      serverName: serverName, proof: proof)
  }

  var moment: KeyProof.Moment { KeyProof.Moment(loop: loop.now) }

  /// The certificates that the client sent.
  static func sent(by ssl: OpaquePointer) -> [Certificate] {
    let chain = SSL_get_peer_cert_chain(ssl)
    let leaf = copenssl_get0_peer_certificate(ssl).map { [Certificate(retaining: $0)] } ?? []
    return leaf
      + (0..<copenssl_sk_X509_num(chain)).compactMap { index in
        copenssl_sk_X509_value(chain, index).map { Certificate(retaining: $0) }
      }
  }
}

extension UpstreamRefusal {
  /// The error from which OpenSSL derives the alert for the upstream.
  fileprivate var alertCode: Int32 {
    switch self {
    case .chain: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    case .expired: X509_V_ERR_CERT_HAS_EXPIRED
    case .revoked: X509_V_ERR_CERT_REVOKED
    case .name: X509_V_ERR_HOSTNAME_MISMATCH
    case .pin: X509_V_ERR_APPLICATION_VERIFICATION
    }
  }
}

/// server_name of a ClientHello (RFC 6066 §3).
package enum ServerNameExtension {
  /// Returns the name in lower case without a trailing dot, empty without the extension, nil when it is malformed.
  static func read(from ssl: OpaquePointer) -> [UInt8]? {
    var start: UnsafePointer<UInt8>?
    var count = 0
    guard SSL_client_hello_get0_ext(ssl, UInt32(TLSEXT_TYPE_server_name), &start, &count) == 1 else { return [] }
    return parse(UnsafeBufferPointer(start: start, count: count))
  }

  package static func parse(_ bytes: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
    guard bytes.count >= 5, Int(bytes[0]) << 8 | Int(bytes[1]) == bytes.count - 2, bytes[2] == 0 else { return nil }
    let length = Int(bytes[3]) << 8 | Int(bytes[4])
    // One name only: OpenSSL and every client send one.
    guard length == bytes.count - 5, (1...255).contains(length) else { return nil }
    var name = bytes[5...].map { ASCII.lower($0) }
    guard name.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != 0x2F }) else { return nil }
    if name.last == 0x2E { name.removeLast() }
    return name
  }
}
