import COpenSSL
public import Crypto

/// The material that a server block's TLS loads from files, already checked.
public struct ServerTLSMaterial: Sendable {
  public var certificates: [CertifiedKey]
  /// `ssl_client_certificate`: trust anchors whose names the server sends to clients.
  public var clientCAs: [Certificate]
  /// `ssl_trusted_certificate`: trust anchors whose names the server does not send.
  public var trustedCAs: [Certificate]
  /// `ssl_client_pin`.
  package var clientPins: PinSet?
  /// `ssl_crl`.
  public var revocations: [RevocationList]
  /// `ssl_session_ticket_key`.
  public var ticketKeys: [TicketKey]
  /// Keys that change meanwhile, in place of those.
  public var ticketRing: TicketKeyRing?
  /// `ssl_dhparam`.
  package var dhParameters: DHParameters?
  /// `ssl_stapling`: one staple for each certificate whose issuer is known.
  package var staples: [Staple] = []
  /// Why there is no certificate, although the settings name one (`$acme_certificate`); nil if there is one.
  package var absence: String?
  /// nil unless the settings have named certificates.
  package var store: CertificateStore?
  /// `ssl_client_certificate spiffe:`; nil if files have the CAs.
  package var bundles: TrustBundles?
  /// Whether what comes from the Workload API, the certificate or the bundles, is there.
  package var workload = WorkloadTerm.unneeded

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

  /// The CAs whose names the server sends to clients: of two certificates with one name, the first.
  var namedCAs: [Certificate] {
    var known: Set<[UInt8]> = []
    return clientCAs.filter { known.insert($0.subjectOctets).inserted }
  }

  /// The bytes that the names take in a CertificateRequest (RFC 8446 §4.2.4, RFC 5246 §7.4.4).
  package var namesSize: Int { namedCAs.reduce(0) { $0 + 2 + $1.subjectOctets.count } }

  /// The most that `namesSize` may be: the length has 16 bits, and the message's other extensions need some of them.
  package static let namesLimit = 65_535 - 256
  /// From here on, the check of a configuration warns. Java refuses messages of more than 32 KiB.
  package static let namesWarning = 16_384
}

/// The TLS context of a server block, for clients: certificate, protocol policy and client verification. Immutable.
// @unchecked: an SSL_CTX may be used by several threads once it is set up, and nothing is set after `init`.
public final class ServerTLSContext: @unchecked Sendable {
  let handle: OpaquePointer
  public let settings: ServerTLSSettings
  /// The certificates that the server presents to clients, without those that handshakes load.
  public let certificates: [Certificate]
  /// The certificates by which upstreams may be told which server the client spoke to (`By` of `client_identity xfcc`).
  /// None if handshakes choose them: a resumed session has none, so the field would be there for some requests only.
  public var identifyingCertificates: [Certificate] { names == nil ? certificates : [] }
  /// Identifies the client policy: verify mode, every CA and pin, depth, purpose, access rules. A request whose Host selects a server
  /// block with another policy gets 421.
  public let clientPolicyDigest: [UInt8]
  /// The client policy together with the server's certificates. This is the session-id context, so a session is resumed
  /// only where both are equal.
  let sessionContext: [UInt8]
  let store: SessionStore?
  /// nil: every certificate was loaded with the configuration.
  let names: NamedCertificates?
  /// Why every handshake is refused: there is no certificate yet. nil if there is one.
  package let absence: String?
  /// Empty: a ticket only names a session of the store.
  private let fixedTicketKeys: [TicketKey]
  private let ticketRing: TicketKeyRing?
  /// The first one seals tickets, and all of them open tickets; empty: the session store has the sessions.
  var ticketKeys: [TicketKey] { ticketRing?.current ?? fixedTicketKeys }
  /// nil: no responder is asked about clients.
  let statusCheck: ClientStatusCheck?
  package let staples: [Staple]
  /// The security level that a client chain's keys and signatures must have; see ContextBasics.chainLevel.
  let chainLevel: Int32
  private let anchors: TrustAnchors?
  /// nil: no pins.
  let pins: ClientPins?
  /// Gets what clients' certificates say about lists that are missing; nil outside a daemon.
  let points: RevocationPoints?
  /// nil: the anchors verify clients.
  let bundles: TrustBundles?
  package let workload: WorkloadTerm
  /// What judges clients beside this context, and decides nothing; nil: nothing does.
  package let candidate: ServerTLSContext?
  private let dhParameters: DHParameters?
  let verifiedChains = VerifiedChainCache()
  /// The chains that trusted fronts have sent in a field; see `knownChain`.
  let relayedChains = VerifiedChainCache()

  /// The cached answers of responders about this context's clients; nil when no responder is asked.
  public var statusAnswers: ClientStatusAnswers? { statusCheck?.answers }

  /// `sessions`: the generation's store; nil when clients may not resume. `answers`: what responders answered under the
  /// same settings; nil starts an empty cache.
  package init(
    settings: ServerTLSSettings, material: ServerTLSMaterial, sessions: SessionStore?, ocsp: OCSPClient,
    answers: ClientStatusAnswers? = nil, points: RevocationPoints? = nil, candidate: ServerTLSContext? = nil
  ) throws(TLSSettingsError) {
    let names = NamedCertificates(settings, material)
    let handle = try ContextBasics.make(
      server: true, commands: settings.confCommands, keys: names == nil ? material.certificates.map(\.key) : nil)
    self.handle = handle
    self.settings = settings
    self.points = points
    self.candidate = candidate
    self.certificates = material.certificates.map(\.certificate)
    self.store = sessions
    self.statusCheck = ClientStatusCheck(settings.clientStatus, ocsp, answers)
    self.staples = material.staples
    self.dhParameters = material.dhParameters
    self.bundles = material.bundles
    self.workload = material.workload
    self.names = names
    self.absence = names == nil && material.certificates.isEmpty ? material.absence : nil
    let hasTickets = sessions != nil && settings.sessionTickets
    fixedTicketKeys = hasTickets ? material.ticketKeys : []
    ticketRing = hasTickets ? material.ticketRing : nil
    let authorities = material.clientCAs + material.trustedCAs
    let standard = SSL_CTX_get_security_level(handle)
    do throws(TLSSettingsError) {
      self.anchors =
        authorities.isEmpty
        ? nil : try Self.anchors(authorities, material.revocations, needsLists: settings.needsLists)
      self.pins = try material.clientPins.map { (pins) throws(TLSSettingsError) in try ClientPins(pins) }
      try Self.configureHandshake(handle, settings, material)
      self.chainLevel = ContextBasics.chainLevel(
        ciphers: settings.effectiveCiphers, settings.confCommands, standard: standard)
      let policy = Self.policyDigest(settings, anchors, material.bundles, pins, chainLevel)
      self.clientPolicyDigest = policy
      let shown = names?.digest ?? material.certificates.flatMap(\.certificate.sha256)
      // A session of one protocol must not be resumed for another.
      let names = settings.protocols == .http ? [] : [1] + (settings.protocols.list ?? [])
      self.sessionContext = Digest.of(policy + shown + names)
    } catch {
      SSL_CTX_free(handle)
      throw error
    }
    configureVerification(material)
    configureSessions()
    if names != nil { SSL_CTX_set_cert_cb(handle, TLSStream.presentCertificates, nil) }
    if absence != nil { SSL_CTX_set_cert_cb(handle, TLSStream.refuseWithoutCertificate, nil) }
    if !staples.isEmpty { _ = copenssl_ctx_set_status_cb(handle, TLSStream.staple) }
    SSL_CTX_set_client_hello_cb(handle, TLSStream.chooseServer, nil)
    HealthMark.listen(handle)
    switch settings.protocols {
    case .http:
      let choose = settings.offersHTTP2 ? ApplicationProtocol.chooseAny : ApplicationProtocol.chooseHTTP1
      SSL_CTX_set_alpn_select_cb(handle, choose, nil)
    case .any: break
    // The callback finds this object by its handshake, which keeps it.
    case .names: SSL_CTX_set_alpn_select_cb(handle, ApplicationProtocol.chooseNamed, nil)
    }
    // OpenSSL then stores the name in the session. The ClientHello callback has already chosen the server block.
    copenssl_ctx_set_tlsext_servername_callback(handle) { _, _, _ in SSL_TLSEXT_ERR_OK }
  }

  deinit { SSL_CTX_free(handle) }

  private static func anchors(
    _ certificates: [Certificate], _ revocations: [RevocationList], needsLists: Bool
  ) throws(TLSSettingsError) -> TrustAnchors {
    do {
      return try TrustAnchors(.certificates(certificates), revocations: revocations, needsLists: needsLists)
    } catch {
      throw TLSSettingsError("the client CAs can't be taken: \(error)")
    }
  }

  /// The pins, where they say alone which clients get in; nil where a chain must verify, or nothing is pinned.
  var pinsAlone: ClientPins? { anchors == nil && bundles == nil ? pins : nil }

  /// The pin that would match a client that no pin matched, for the log; nil for another fault.
  package func pinWords(on leaf: Certificate, code: Int) -> String? {
    guard code == Int(ClientPins.mismatch), let pins else { return nil }
    return "; its \(pins.pins.mode == .publicKey ? "key" : "certificate") is \(pins.pins.spelling(of: leaf))"
  }

  /// The store in which clients' trust anchors are looked up; an empty store when there are no anchors.
  var verificationStore: OpaquePointer? { anchors?.handle ?? SSL_CTX_get_cert_store(handle) }

  /// Returns whether an expired CRL revokes a certificate of a chain that verified.
  func isRevokedByEndedList(_ stack: OpaquePointer?, at now: Int64) -> Bool {
    guard let anchors, !anchors.revocations.isEmpty, let chain = VerifiedChain(stack) else { return false }
    return anchors.endedListRevokes([chain.leaf] + chain.others, now: now)
  }

  /// Settles what OpenSSL's search for a client's chain has found. Returns the chain if it is verified; else the store has
  /// the error. `faults`: those past which the search went on. `purposeless`: a chain that verified but for the purpose of
  /// its leaf.
  func settle(
    _ store: OpaquePointer, result: Int32, _ faults: ChainFaults, at now: Int64
  ) -> (verified: VerifiedChain?, purposeless: VerifiedChain?) {
    if result == 1, faults.lacksList {
      X509_STORE_CTX_set_error(store, X509_V_ERR_UNABLE_TO_GET_CRL)
      if let chain = VerifiedChain(X509_STORE_CTX_get0_chain(store)) { points?.note(chain, settings.revocationFetch) }
    } else if result == 1, isRevokedByEndedList(X509_STORE_CTX_get0_chain(store), at: now) {
      X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REVOKED)
    } else if result == 1, faults.lacksPurpose, settings.clientPurpose == .client {
      X509_STORE_CTX_set_error(store, X509_V_ERR_INVALID_PURPOSE)
      return (nil, VerifiedChain(X509_STORE_CTX_get0_chain(store)))
    } else if result == 1 {
      return (VerifiedChain(X509_STORE_CTX_get0_chain(store)), nil)
    } else if X509_STORE_CTX_get_error(store) == X509_V_OK {
      // A failure without a reason must not look like success (CVE-2026-28755).
      X509_STORE_CTX_set_error(store, X509_V_ERR_UNSPECIFIED)
    }
    return (nil, nil)
  }

  /// The CRLs that apply to clients.
  package var revocations: [RevocationList] { anchors?.revocations ?? bundles?.revocations ?? [] }
  /// The CAs by which it verifies clients; not those of the system.
  package var authorities: [Certificate] { anchors?.certificates ?? bundles?.certificates ?? [] }
  /// The pins of clients.
  package var pinned: PinSet? { pins?.pins }

  /// Seconds since 1970 at which the first CRL expires; nil when no CRL expires. From then on that CRL refuses every
  /// certificate of its CA, so no session outlives it.
  var revocationsEnd: Int64? { anchors?.revocationsEnd }
  /// Seconds since 1970 at which the first CRL expires, or a CRL or CA begins that had not begun at `moment`: no
  /// judgement of that moment outlives it.
  func judgementEnd(of moment: Int64) -> Int64? {
    guard let bundles else { return anchors?.judgementEnd(of: moment) }
    // What only the agent can renew is not trusted beyond its end.
    let end: Int64? = if case .until(let end) = workload { end } else { nil }
    return [bundles.judgementEnd(of: moment), end].compactMap { $0 }.min()
  }

  /// The first moment after `moment`, in seconds since 1970, at which this context may judge a client in another way than
  /// at `moment`; `.max` if none comes. It is the end of a certificate of the chain, or the begin or end of a CRL, of a
  /// CA or of what the SPIFFE agent gave.
  ///
  /// `sent`: the client's certificates, which count if nothing verified it. A pin of a key has no end, and a refusal none
  /// that matters.
  package func judgementEnd(
    of verdict: ClientVerdict, sent: @autoclosure () -> [Certificate], at moment: Int64
  ) -> Int64 {
    let certificates: [Certificate]
    switch verdict {
    case .verified(let chain): certificates = [chain.leaf] + chain.others
    case .unverified: certificates = sent()
    case .absent, .pinned, .refused: return .max
    }
    let ends = certificates.compactMap(\.notAfter.seconds).filter { $0 > moment }
    let changes = [
      bundles.map { $0.nextChange(after: moment) } ?? anchors?.nextChange(after: moment), workload.end(after: moment),
    ]
    return (ends + changes.compactMap { $0 }).min() ?? .max
  }

  private static func policyDigest(
    _ settings: ServerTLSSettings, _ anchors: TrustAnchors?, _ bundles: TrustBundles?, _ pins: ClientPins?,
    _ chainLevel: Int32
  ) -> [UInt8] {
    var bytes = Array(settings.verification.rawValue.utf8) + [0]
    bytes += Array("\(settings.verifyDepth) \(chainLevel)".utf8) + [0]
    bytes += anchors?.digest ?? []
    if let rules = settings.rules { bytes += [1] + rules.fingerprint }
    let status = settings.clientStatus
    if status.extent != .off {
      bytes += [2] + Array("\(status.extent.rawValue) \(status.responder?.description ?? "")".utf8)
    }
    if settings.rejection == .reportOnly { bytes += [3] }
    if let pins { bytes += [4] + pins.pins.digest }
    if settings.clientPurpose == .any { bytes += [5] }
    bytes += settings.revocationFetch.fingerprint
    if let bundles { bytes += [7] + bundles.digest }
    return Digest.of(bytes)
  }

  private static func configureHandshake(
    _ handle: OpaquePointer, _ settings: ServerTLSSettings, _ material: ServerTLSMaterial
  ) throws(TLSSettingsError) {
    if material.namesSize > ServerTLSMaterial.namesLimit {
      throw TLSSettingsError(
        "the names of the CAs of ssl_client_certificate take \(material.namesSize) bytes of a handshake, and TLS has room for "
          + "\(ServerTLSMaterial.namesLimit): every handshake would fail",
        hint: "name the CAs in ssl_trusted_certificate, whose names are not sent")
    }
    try ContextBasics.setVersions(settings.versions, on: handle)
    // The ciphers may lower OpenSSL's security level, by which it judges the certificates.
    try Self.configureAlgorithms(handle, settings, material.dhParameters)
    for pair in material.certificates { try ContextBasics.use(pair, on: handle) }
    if settings.bufferSize < 16384 { _ = copenssl_ctx_set_max_send_fragment(handle, max(512, settings.bufferSize)) }
    if settings.compressesCertificates, settings.compressionHindrance == nil {
      CertificateCompression.turnOn(handle)
    }
    try ContextBasics.apply(settings.confCommands, server: true, on: handle)
  }

  private static func configureAlgorithms(
    _ handle: OpaquePointer, _ settings: ServerTLSSettings, _ parameters: DHParameters?
  ) throws(TLSSettingsError) {
    try ContextBasics.setCiphers(settings.effectiveCiphers, on: handle)
    try ContextBasics.setGroups(settings.curves, of: settings.curvesDirective, on: handle)
    if settings.preferServerCiphers { SSL_CTX_set_options(handle, COPENSSL_OP_CIPHER_SERVER_PREFERENCE) }
    try setDH(parameters, on: handle)
  }

  /// Gives another SSL_CTX, which serves nobody, all by which this one chooses among what a client offers.
  func configureOffers(of other: OpaquePointer) throws(TLSSettingsError) {
    try ContextBasics.setVersions(settings.versions, on: other)
    try Self.configureAlgorithms(other, settings, dhParameters)
    try ContextBasics.apply(settings.confCommands, server: true, on: other)
  }

  /// Gives it the certificates with their keys. Returns false if there is none before a handshake.
  func copyCertificates(to other: OpaquePointer) -> Bool {
    // A session has a copy of the list, so that nothing here changes.
    guard let ssl = SSL_new(handle) else { return false }
    defer { SSL_free(ssl) }
    var (place, count) = (SSL_CERT_SET_FIRST, 0)
    while SSL_ctrl(ssl, SSL_CTRL_SET_CURRENT_CERT, Int(place), nil) == 1 {
      place = SSL_CERT_SET_NEXT
      guard let certificate = SSL_get_certificate(ssl), let key = SSL_get_privatekey(ssl),
        SSL_CTX_use_certificate(other, certificate) == 1, SSL_CTX_use_PrivateKey(other, key) == 1
      else { continue }
      count += 1
    }
    return count > 0
  }

  private static func setDH(_ parameters: DHParameters?, on handle: OpaquePointer) throws(TLSSettingsError) {
    // Without parameters there are no DHE suites, as in nginx: a key of a finite field costs the server much more than the
    // client (CVE-2002-20001).
    guard let parameters else { return }
    EVP_PKEY_up_ref(parameters.handle)
    // On success OpenSSL owns the reference.
    guard SSL_CTX_set0_tmp_dh_pkey(handle, parameters.handle) == 1 else {
      EVP_PKEY_free(parameters.handle)
      throw TLSSettingsError("OpenSSL refuses the DH parameters: \(OpenSSLReasons.words())")
    }
  }

  /// Runs after `ssl_conf_command`, so that no such command can disable verification.
  private func configureVerification(_ material: ServerTLSMaterial) {
    if let anchors { _ = copenssl_ctx_set1_verify_store(handle, anchors.handle) }
    SSL_CTX_set_cert_verify_callback(handle, TLSStream.judgeClient, nil)
    SSL_CTX_set_verify(handle, verifyMode, nil)
    SSL_CTX_set_verify_depth(handle, Int32(truncatingIfNeeded: settings.verifyDepth))
    guard !material.clientCAs.isEmpty, let names = copenssl_sk_X509_NAME_new() else { return }
    for certificate in material.namedCAs {
      if let name = X509_NAME_dup(X509_get_subject_name(certificate.handle)) {
        _ = copenssl_sk_X509_NAME_push(names, name)
      }
    }
    SSL_CTX_set_client_CA_list(handle, names)
  }

  private func configureSessions() {
    // Set on every context: OpenSSL calls back through the context that the connection started with, whichever is
    // chosen.
    _ = copenssl_ctx_set_ticket_key_cb(handle, TLSStream.ticketKey)
    SSL_CTX_set_session_ticket_cb(handle, TLSStream.sealTicket, TLSStream.openTicket, nil)
    if ticketKeys.isEmpty { SSL_CTX_set_options(handle, COPENSSL_OP_NO_TICKET) }
    // OpenSSL's own replay protection looks only into its own cache. Here the store protects: it hands out a TLS 1.3
    // session once.
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
    // The server sends one ticket, not two: each costs about 145 µs.
    _ = copenssl_ctx_set_num_tickets(handle, 1)
    SSL_CTX_set_timeout(handle, Int(settings.sessionTimeout))
    SSL_CTX_sess_set_new_cb(handle, TLSStream.keepSession)
    SSL_CTX_sess_set_get_cb(handle, TLSStream.findSession)
    sessionContext.withUnsafeBufferPointer {
      _ = SSL_CTX_set_session_id_context(handle, $0.baseAddress, UInt32($0.count))
    }
  }

  /// Returns whether a client with this verdict, which is not X509_V_OK, still gets in, as unverified.
  func excuses(_ verdict: Int32) -> Bool {
    settings.verification == .optionalNoCA && ChainFaults.excuses(verdict)
  }

  package var takesEarlyData: Bool { settings.earlyData && settings.earlyDataHindrance == nil && store != nil }

  private var earlyDataLimit: UInt32 { takesEarlyData ? EarlyData.limit : 0 }

  private var verifyMode: Int32 {
    switch settings.verification {
    case .off: SSL_VERIFY_NONE
    // nginx answers a client without a certificate with 400 over HTTP. So the handshake demands a certificate only for
    // `ssl_verify_reject handshake`.
    case .on, .optional, .optionalNoCA:
      SSL_VERIFY_PEER | (settings.alertsWithoutCertificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0)
    }
  }

  /// Replaces the listener's initial context with this one.
  ///
  /// Call it in the ClientHello callback, before OpenSSL chooses version, session and certificate. SSL_set_SSL_CTX
  /// alone would keep the verification settings and versions of the initial context.
  func adopt(_ ssl: OpaquePointer) -> Bool {
    guard SSL_set_SSL_CTX(ssl, handle) != nil else { return false }
    SSL_set_verify(ssl, verifyMode, nil)
    SSL_set_verify_depth(ssl, Int32(truncatingIfNeeded: settings.verifyDepth))
    SSL_clear_options(ssl, SSL_get_options(ssl) & ~SSL_CTX_get_options(handle))
    SSL_set_options(ssl, SSL_CTX_get_options(handle))
    // Takes the versions from the context, not from `ssl_protocols`: ssl_conf_command may have narrowed them.
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
  /// Whether the handshake fails when the client sends no certificate (`ssl_verify_reject handshake`).
  var alertsWithoutCertificate: Bool {
    guard rejection == .handshake else { return false }
    return switch verification {
    case .off: false
    case .on: true
    case .optional, .optionalNoCA: rules?.needsCertificate ?? false
    }
  }
}
