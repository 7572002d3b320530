import COpenSSL
public import Crypto
import Glibc

/// What a server block's TLS needs from files, loaded and checked.
public struct ServerTLSMaterial: Sendable {
  public var certificates: [CertifiedKey]
  /// `ssl_client_certificate`: anchors whose names the client is told.
  public var clientCAs: [Certificate]
  /// `ssl_trusted_certificate`: anchors that are not named.
  public var trustedCAs: [Certificate]
  /// `ssl_crl`.
  public var revocations: [RevocationList]
  /// `ssl_session_ticket_key`.
  public var ticketKeys: [TicketKey]
  /// `ssl_dhparam`.
  package var dhParameters: DHParameters?
  /// `ssl_stapling`: one for each certificate whose issuer is known.
  package var staples: [Staple] = []

  public init(
    certificates: [CertifiedKey], clientCAs: [Certificate], trustedCAs: [Certificate],
    revocations: [RevocationList] = [], ticketKeys: [TicketKey] = []
  ) {
    self.certificates = certificates
    self.clientCAs = clientCAs
    self.trustedCAs = trustedCAs
    self.revocations = revocations
    self.ticketKeys = ticketKeys
  }
}

/// A server block's side of the outer door: certificate, protocol policy and how clients are judged. Immutable.
// @unchecked: an SSL_CTX may be used by several threads once it is set up, and nothing is set after `init`.
public final class ServerTLSContext: @unchecked Sendable {
  let handle: OpaquePointer
  public let settings: ServerTLSSettings
  /// Those that are shown to clients.
  public let certificates: [Certificate]
  /// Says which clients get in and how they are judged: verify mode, every CA, depth, rules. A Host never crosses it (421).
  public let clientPolicyDigest: [UInt8]
  /// The same with the certificates that are shown: the session-id context, which no session crosses.
  let sessionContext: [UInt8]
  let store: SessionStore?
  /// Empty: a ticket only names a session of the store.
  let ticketKeys: [TicketKey]
  /// nil: no responder is asked about clients.
  let statusCheck: ClientStatusCheck?
  package let staples: [Staple]
  /// What a client chain's keys and signatures must be worth; see ContextBasics.chainLevel.
  let chainLevel: Int32
  private let anchors: TrustAnchors?

  /// What responders said of its clients; nil where nobody is asked.
  public var statusAnswers: ClientStatusAnswers? { statusCheck?.answers }

  /// `sessions`: the generation's store; nil where nothing may be resumed. `answers`: what responders said of clients
  /// under the same settings; nil for nothing.
  package init(
    settings: ServerTLSSettings, material: ServerTLSMaterial, sessions: SessionStore?, ocsp: OCSPClient,
    answers: ClientStatusAnswers? = nil
  ) throws(TLSSettingsError) {
    let handle = try ContextBasics.make(server: true)
    self.handle = handle
    self.settings = settings
    self.certificates = material.certificates.map(\.certificate)
    self.store = sessions
    self.statusCheck = ClientStatusCheck(settings.clientStatus, ocsp, answers)
    self.staples = material.staples
    self.ticketKeys = sessions == nil || !settings.sessionTickets ? [] : material.ticketKeys
    let authorities = material.clientCAs + material.trustedCAs
    let standard = SSL_CTX_get_security_level(handle)
    do throws(TLSSettingsError) {
      self.anchors = authorities.isEmpty ? nil : try Self.anchors(authorities, material.revocations)
      try Self.configureHandshake(handle, settings, material)
      self.chainLevel = ContextBasics.chainLevel(of: handle, standard: standard)
      self.clientPolicyDigest = Self.policyDigest(settings, anchors, chainLevel)
      self.sessionContext = Digest.of(material.certificates.reduce(clientPolicyDigest) { $0 + $1.certificate.sha256 })
    } catch {
      SSL_CTX_free(handle)
      throw error
    }
    configureVerification(material)
    configureSessions()
    if !staples.isEmpty { _ = copenssl_ctx_set_status_cb(handle, TLSStream.staple) }
    SSL_CTX_set_client_hello_cb(handle, TLSStream.chooseServer, nil)
    SSL_CTX_set_alpn_select_cb(handle, ApplicationProtocol.choose, nil)
    // Stores the name in the session; the choice was made before.
    copenssl_ctx_set_tlsext_servername_callback(handle) { _, _, _ in SSL_TLSEXT_ERR_OK }
  }

  deinit { SSL_CTX_free(handle) }

  private static func anchors(
    _ certificates: [Certificate], _ revocations: [RevocationList]
  ) throws(TLSSettingsError) -> TrustAnchors {
    do {
      return try TrustAnchors(.certificates(certificates), revocations: revocations)
    } catch {
      throw TLSSettingsError("the client CAs can't be taken: \(error)")
    }
  }

  /// Where the anchors of clients are looked up; empty where there are none.
  var verificationStore: OpaquePointer? { anchors?.handle ?? SSL_CTX_get_cert_store(handle) }

  /// A chain that verified, but of which a list that has ended names somebody.
  func isRevokedByEndedList(_ stack: OpaquePointer?) -> Bool {
    guard let anchors, !anchors.revocations.isEmpty, let chain = VerifiedChain(stack) else { return false }
    return anchors.endedListRevokes([chain.leaf] + chain.others, now: Int64(time(nil)))
  }

  /// Those that count for clients.
  package var revocations: [RevocationList] { anchors?.revocations ?? [] }

  /// Seconds since 1970: from then on a revocation list refuses everybody of its CA, so no session outlives it; nil
  /// where no list has an end.
  var revocationsEnd: Int64? { anchors?.revocationsEnd }

  private static func policyDigest(
    _ settings: ServerTLSSettings, _ anchors: TrustAnchors?, _ chainLevel: Int32
  ) -> [UInt8] {
    var bytes = Array(settings.verification.rawValue.utf8) + [0]
    bytes += Array("\(settings.verifyDepth) \(chainLevel)".utf8) + [0]
    bytes += anchors?.digest ?? []
    if let rules = settings.rules { bytes += [1] + rules.fingerprint }
    let status = settings.clientStatus
    if status.extent != .off {
      bytes += [2] + Array("\(status.extent.rawValue) \(status.responder?.description ?? "")".utf8)
    }
    return Digest.of(bytes)
  }

  private static func configureHandshake(
    _ handle: OpaquePointer, _ settings: ServerTLSSettings, _ material: ServerTLSMaterial
  ) throws(TLSSettingsError) {
    try ContextBasics.setVersions(settings.versions, on: handle)
    try ContextBasics.setCiphers(settings.effectiveCiphers, on: handle)
    for pair in material.certificates { try ContextBasics.use(pair, on: handle) }
    // X25519 first: P-256 costs 42 µs more a handshake.
    if copenssl_ctx_set1_groups_list(handle, settings.curves ?? "X25519:P-256:X448:P-521:P-384") != 1 {
      throw TLSSettingsError("ssl_ecdh_curve \"\(settings.curves ?? "")\": \(OpenSSLReasons.take())")
    }
    if settings.preferServerCiphers { SSL_CTX_set_options(handle, COPENSSL_OP_CIPHER_SERVER_PREFERENCE) }
    try Self.setDH(material.dhParameters, on: handle)
    if settings.bufferSize < 16384 { _ = copenssl_ctx_set_max_send_fragment(handle, max(512, settings.bufferSize)) }
    try ContextBasics.apply(settings.confCommands, server: true, on: handle)
  }

  private static func setDH(_ parameters: DHParameters?, on handle: OpaquePointer) throws(TLSSettingsError) {
    guard let parameters else {
      _ = copenssl_ctx_set_dh_auto(handle)
      return
    }
    EVP_PKEY_up_ref(parameters.handle)
    // Takes the reference over where it succeeds.
    guard SSL_CTX_set0_tmp_dh_pkey(handle, parameters.handle) == 1 else {
      EVP_PKEY_free(parameters.handle)
      throw TLSSettingsError("OpenSSL refuses the DH parameters: \(OpenSSLReasons.take())")
    }
  }

  /// After `ssl_conf_command`, so that none of them takes a judgement away.
  private func configureVerification(_ material: ServerTLSMaterial) {
    if let anchors { _ = copenssl_ctx_set1_verify_store(handle, anchors.handle) }
    SSL_CTX_set_cert_verify_callback(handle, TLSStream.judgeClient, nil)
    SSL_CTX_set_verify(handle, verifyMode, nil)
    SSL_CTX_set_verify_depth(handle, Int32(truncatingIfNeeded: settings.verifyDepth))
    guard !material.clientCAs.isEmpty, let names = copenssl_sk_X509_NAME_new() else { return }
    for certificate in material.clientCAs {
      if let name = X509_NAME_dup(X509_get_subject_name(certificate.handle)) {
        _ = copenssl_sk_X509_NAME_push(names, name)
      }
    }
    SSL_CTX_set_client_CA_list(handle, names)
  }

  private func configureSessions() {
    // On every context: OpenSSL asks that with which a connection began, whichever is chosen.
    _ = copenssl_ctx_set_ticket_key_cb(handle, TLSStream.ticketKey)
    SSL_CTX_set_session_ticket_cb(handle, TLSStream.sealTicket, TLSStream.openTicket, nil)
    if ticketKeys.isEmpty { SSL_CTX_set_options(handle, COPENSSL_OP_NO_TICKET) }
    // OpenSSL's own protection against replays looks into its own cache only; ours is the store, which gives a session
    // of TLS 1.3 away once.
    SSL_CTX_set_options(handle, COPENSSL_OP_NO_ANTI_REPLAY)
    SSL_CTX_set_max_early_data(handle, earlyDataLimit)
    SSL_CTX_set_allow_early_data_cb(handle, TLSStream.allowsEarlyData, nil)
    guard store != nil else {
      _ = copenssl_ctx_set_session_cache_mode(handle, Int(SSL_SESS_CACHE_OFF))
      _ = copenssl_ctx_set_num_tickets(handle, 0)
      return
    }
    _ = copenssl_ctx_set_session_cache_mode(
      handle, Int(SSL_SESS_CACHE_SERVER) | Int(SSL_SESS_CACHE_NO_INTERNAL) | Int(SSL_SESS_CACHE_NO_AUTO_CLEAR))
    // Each ticket costs about 145 µs: one, not two.
    _ = copenssl_ctx_set_num_tickets(handle, 1)
    SSL_CTX_set_timeout(handle, Int(settings.sessionTimeout))
    SSL_CTX_sess_set_new_cb(handle, TLSStream.keepSession)
    SSL_CTX_sess_set_get_cb(handle, TLSStream.findSession)
    sessionContext.withUnsafeBufferPointer {
      _ = SSL_CTX_set_session_id_context(handle, $0.baseAddress, UInt32($0.count))
    }
  }

  /// Whether a client with this verdict, which is not OK, gets in all the same: unverified.
  func excuses(_ verdict: Int32) -> Bool {
    settings.verification == .optionalNoCA && ChainFaults.excuses(verdict)
  }

  package var takesEarlyData: Bool { settings.earlyData && settings.earlyDataHindrance == nil && store != nil }

  private var earlyDataLimit: UInt32 { takesEarlyData ? EarlyData.limit : 0 }

  private var verifyMode: Int32 {
    switch settings.verification {
    case .off: SSL_VERIFY_NONE
    // nginx answers 400 in HTTP to who has no certificate, so none is demanded in the handshake unless asked for.
    case .on, .optional, .optionalNoCA:
      SSL_VERIFY_PEER | (settings.alertsWithoutCertificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0)
    }
  }

  /// Puts this context in the place of the listener's first one, in the ClientHello callback: before the version, the
  /// session and the certificate are chosen. SSL_set_SSL_CTX alone would leave verification and versions behind.
  func adopt(_ ssl: OpaquePointer) -> Bool {
    guard SSL_set_SSL_CTX(ssl, handle) != nil else { return false }
    SSL_set_verify(ssl, verifyMode, nil)
    SSL_set_verify_depth(ssl, Int32(truncatingIfNeeded: settings.verifyDepth))
    SSL_clear_options(ssl, SSL_get_options(ssl) & ~SSL_CTX_get_options(handle))
    SSL_set_options(ssl, SSL_CTX_get_options(handle))
    // As the context has them, not as `ssl_protocols` says: ssl_conf_command may have narrowed them.
    _ = copenssl_set_min_proto(
      ssl, Int32(truncatingIfNeeded: SSL_CTX_ctrl(handle, SSL_CTRL_GET_MIN_PROTO_VERSION, 0, nil)))
    _ = copenssl_set_max_proto(
      ssl, Int32(truncatingIfNeeded: SSL_CTX_ctrl(handle, SSL_CTRL_GET_MAX_PROTO_VERSION, 0, nil)))
    _ = SSL_set_num_tickets(ssl, store == nil ? 0 : 1)
    SSL_set_max_early_data(ssl, earlyDataLimit)
    return sessionContext.withUnsafeBufferPointer {
      SSL_set_session_id_context(ssl, $0.baseAddress, UInt32($0.count)) == 1
    }
  }
}

extension ServerTLSSettings {
  /// A handshake without a certificate of the client's fails (`ssl_verify_reject handshake`).
  var alertsWithoutCertificate: Bool {
    guard rejection == .handshake else { return false }
    return switch verification {
    case .off: false
    case .on: true
    case .optional, .optionalNoCA: rules?.needsCertificate ?? false
    }
  }
}
