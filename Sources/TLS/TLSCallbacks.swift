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
    stream.judgement = nil
    // The chosen server block requested the certificate, so there is a policy.
    guard let policy = stream.clientPolicy else { return 0 }
    var judge = ClientJudge(by: policy)
    guard let judgement = judge.judge(store, at: Int64(time(nil)), completes: true) else { return 0 }
    stream.judgement = judgement
    guard judgement.isLetIn else {
      stream.refused(X509_STORE_CTX_get0_cert(store), sent: ClientJudge.sent(in: store))
      return 0
    }
    return 1
  }

  /// By what the client is judged; nil before a server block is chosen.
  var clientPolicy: ClientPolicy? {
    guard case .server(let chooser) = side else { return nil }
    return serverContext.map { ClientPolicy(context: $0, chooser: chooser) }
  }

  /// SSL_CTX_set_cert_verify_callback for upstreams: refuses within the handshake.
  static let judgeUpstream: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { store, _ in
    guard let store else { return 0 }
    guard let stream = TLSStream.of(TLSStream.ssl(of: store)), case .client(let context, let name, _) = stream.side
    else {
      // What has no stream judges after the handshake.
      PeerCertificates.decodeKeys(in: store)
      return 0
    }
    stream.take(context.judge(store, name: name))
    guard case .refused(let refusal) = stream.trustResult else {
      X509_STORE_CTX_set_error(store, X509_V_OK)
      return 1
    }
    stream.refused(X509_STORE_CTX_get0_cert(store))
    X509_STORE_CTX_set_error(store, refusal.alertCode)
    return 0
  }

  private static func ssl(of store: OpaquePointer) -> OpaquePointer? {
    X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()).map { OpaquePointer($0) }
  }

  /// Returns whether the server may keep a session for the client. A refused client gets no session.
  func leavesSession(_ ssl: OpaquePointer, _ context: ServerTLSContext) -> Bool {
    let verdict = Int32(truncatingIfNeeded: SSL_get_verify_result(ssl))
    return (verdict == X509_V_OK || context.excuses(verdict)) && clientPolicy?.denial(of: verifiedClient) == nil
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
        stream.clientPolicy?.denial(of: found.origin.client) == nil
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
      switch judgement?.verdict.client {
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
    let anchorsEnd = context.judgementEnd(of: judgement?.moment ?? Int64(time(nil)))
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
