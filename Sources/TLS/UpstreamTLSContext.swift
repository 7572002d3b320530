import Bytes
import COpenSSL
public import Crypto
import Glibc
import SPIFFE
import Synchronization

/// The material that a location's upstream TLS loads from files, already checked.
public struct UpstreamTLSMaterial: Sendable {
  /// The terms of the settings, loaded.
  public var policy: TrustPolicy
  public var identity: CertifiedKey?
  /// Whether what comes from the Workload API, the identity or the bundles, is there.
  public var workload: WorkloadTerm

  public init(policy: TrustPolicy, identity: CertifiedKey?, workload: WorkloadTerm = .unneeded) {
    self.policy = policy
    self.identity = identity
    self.workload = workload
  }
}

/// The TLS context of a location, for upstreams: it judges them within the handshake that carries the data. Immutable.
///
/// Equal settings share one context, so a kept connection or session is never used under another policy.
// @unchecked: an SSL_CTX may be used by several threads once it is set up, and a Mutex guards the sessions.
public final class UpstreamTLSContext: @unchecked Sendable {
  let handle: OpaquePointer
  public let settings: UpstreamTLSSettings
  private let material: UpstreamTLSMaterial
  /// The pinned certificates that serve as trust anchors.
  private let pinAnchors: TrustAnchors?
  private let verification: ChainVerification
  /// The chains that lead to `material.policy.anchors`, and those to `pinAnchors`.
  let verifiedChains = VerifiedChainCache()
  private let pinnedChains = VerifiedChainCache()
  private let sessions = Mutex<[SessionKey: (session: KeptSession, provenAt: UInt64)]>([:])
  private static let sessionLimit = 256

  struct SessionKey: Hashable {
    var address: String
    var name: String
  }

  public init(settings: UpstreamTLSSettings, material: UpstreamTLSMaterial) throws(TLSSettingsError) {
    let handle = try ContextBasics.make(
      server: false, commands: settings.confCommands, keys: material.identity.map { [$0.key] } ?? [])
    self.handle = handle
    self.settings = settings
    self.material = material
    let policy = material.policy
    trustDigest = (policy.anchors?.digest ?? []) + (policy.bundles?.digest ?? []) + (policy.pins?.digest ?? [])
    let standard = SSL_CTX_get_security_level(handle)
    do throws(TLSSettingsError) {
      self.pinAnchors = try Self.anchors(
        of: material.policy.pins, revocations: material.policy.anchors?.revocations ?? [],
        needsLists: !settings.revocationLists.isEmpty && material.policy.anchors != nil)
      try Self.configureHandshake(handle, settings, material)
    } catch {
      SSL_CTX_free(handle)
      throw error
    }
    self.verification = ChainVerification(
      depth: settings.verifyDepth,
      level: ContextBasics.chainLevel(
        ciphers: settings.effectiveCiphers, settings.confCommands, standard: standard))
    configureJudgement()
  }

  deinit { SSL_CTX_free(handle) }

  /// Equal for the same anchors, CRLs and pins.
  let trustDigest: [UInt8]
  /// The certificate that the context presents to upstreams.
  package var presented: Certificate? { material.identity?.certificate }
  /// The CRLs that apply to upstreams.
  package var revocations: [RevocationList] {
    material.policy.anchors?.revocations ?? material.policy.bundles?.revocations ?? []
  }
  /// The CAs and pinned certificates by which it verifies upstreams; not those of the system.
  package var authorities: [Certificate] {
    (material.policy.anchors?.certificates ?? []) + (material.policy.bundles?.certificates ?? [])
      + (pinAnchors?.certificates ?? [])
  }
  /// The certificate that it presents to upstreams.
  package var certificate: Certificate? { material.identity?.certificate }

  /// Returns a context with the same policy and another client certificate. The two never share sessions or
  /// connections: an upstream grants a session to the identity that the client presented.
  public func presenting(_ identity: CertifiedKey) throws(TLSSettingsError) -> UpstreamTLSContext {
    var material = material
    material.identity = identity
    return try UpstreamTLSContext(settings: settings, material: material)
  }

  /// Mode `certificate`: pinned certificates are trust anchors, and CRLs can revoke them like others.
  private static func anchors(
    of pins: PinSet?, revocations: [RevocationList], needsLists: Bool
  ) throws(TLSSettingsError) -> TrustAnchors? {
    guard let certificates = pins?.certificates, !certificates.isEmpty else { return nil }
    do throws(OpenSSLError) {
      return try TrustAnchors(.certificates(certificates), revocations: revocations, needsLists: needsLists)
    } catch {
      throw TLSSettingsError("the pinned certificates can't be taken as anchors: \(error)")
    }
  }

  private static func configureHandshake(
    _ handle: OpaquePointer, _ settings: UpstreamTLSSettings, _ material: UpstreamTLSMaterial
  ) throws(TLSSettingsError) {
    try ContextBasics.setVersions(settings.versions, on: handle)
    try ContextBasics.setCiphers(settings.effectiveCiphers, on: handle)
    try ContextBasics.setGroups(settings.curves, of: settings.curvesDirective, on: handle)
    if let identity = material.identity { try ContextBasics.use(identity, on: handle) }
    let offered = OfferedProtocols((settings.offersHTTP2 ? ["h2"] : settings.protocols).map { Array($0.utf8) }).list
    if !offered.isEmpty {
      guard SSL_CTX_set_alpn_protos(handle, offered, UInt32(offered.count)) == 0 else {
        throw TLSSettingsError("ALPN: \(OpenSSLReasons.words())")
      }
    }
    try ContextBasics.apply(settings.confCommands, server: false, on: handle)
  }

  /// Runs after `proxy_ssl_conf_command`, so that no such command can disable verification. The context's own store is
  /// unused.
  private func configureJudgement() {
    SSL_CTX_set_cert_verify_callback(handle, TLSStream.judgeUpstream, nil)
    SSL_CTX_set_verify(handle, judges ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nil)
    if settings.reusesSessions {
      _ = copenssl_ctx_set_session_cache_mode(
        handle, Int(SSL_SESS_CACHE_CLIENT) | Int(SSL_SESS_CACHE_NO_INTERNAL) | Int(SSL_SESS_CACHE_NO_AUTO_CLEAR))
      SSL_CTX_sess_set_new_cb(handle, TLSStream.keepUpstreamSession)
    } else {
      _ = copenssl_ctx_set_session_cache_mode(handle, Int(SSL_SESS_CACHE_OFF))
    }
  }

  /// Whether the policy demands anything of an upstream.
  private var judges: Bool {
    if case .anybody = material.policy { material.workload != .unneeded } else { true }
  }

  /// Judges what OpenSSL asks to verify in a handshake, which goes on with the certificates of `store`.
  func judge(_ store: OpaquePointer, name: String) -> UpstreamJudgement {
    let leaf = X509_STORE_CTX_get0_cert(store), sent = X509_STORE_CTX_get0_untrusted(store)
    let key = judges ? VerifiedChainCache.Key(leaf: leaf, sent: sent) : nil
    let now = Int64(time(nil))
    if let key, let kept = verifiedChains.find(key, now: now) ?? pinnedChains.find(key, now: now) {
      kept.sent.replace(in: store)
    }
    PeerCertificates.decodeKeys(in: store)
    return judge(leaf: X509_STORE_CTX_get0_cert(store), sent: sent, name: name, key: key)
  }

  /// Judges by the policy. `leaf`: the certificate of the handshake. `sent`: certificates that may link it to an
  /// anchor. `key`: that of both, if it is known.
  func judge(
    leaf: OpaquePointer?, sent: OpaquePointer?, name: String, key: VerifiedChainCache.Key? = nil
  ) -> UpstreamJudgement {
    guard judges else { return UpstreamJudgement(.unverified) }
    let now = Int64(time(nil))
    // Without its identity, sallyport would be another client, whom the upstream may let in for less.
    if let fault = material.workload.fault(at: now) { return UpstreamJudgement(.refused(.chain(fault))) }
    guard let leaf else { return UpstreamJudgement(.refused(.chain("no certificate"))) }
    let key = key ?? VerifiedChainCache.Key(leaf: leaf, sent: sent)
    func find(_ anchors: TrustAnchors?, through above: OpaquePointer?, partial: Bool) -> ChainFinding {
      guard let anchors else { return .unseen }
      let chains = partial ? pinnedChains : verifiedChains
      if let key, let kept = chains.find(key, now: now) { return .verified(kept.chain) }
      let finding = verification.find(leaf: leaf, sent: above, anchors: anchors, partial: partial)
      if case .verified(let chain) = finding, let key {
        let shared = SharedCertificates(sent, in: chain)
        chains.keep(chain, sent: shared, for: key, judgementEnd: anchors.judgementEnd(of: now), now: now)
      }
      return finding
    }
    let policy = material.policy
    let certificate = Certificate(retaining: leaf)
    // A leaf that is itself an anchor needs no issuers: the other certificates could only add faults.
    let above = policy.pins?.holdsFile(of: certificate) == true ? nil : sent
    let facts = PeerFacts(
      leaf: certificate,
      chain: policy.bundles.map { $0.find(leaf: leaf, sent: sent, by: verification) }
        ?? find(policy.anchors, through: sent, partial: false),
      pinnedChain: find(pinAnchors, through: above, partial: true),
      matchesName: policy.checksName && Self.matches(leaf, name: name),
      name: name, keyBits: X509_get0_pubkey(leaf).map { Int(EVP_PKEY_get_security_bits($0)) } ?? 0)
    return UpstreamJudgement(policy.judge(facts), end: judgementEnd(of: facts, at: now))
  }

  /// The first moment after `now`, in seconds since 1970, at which the judgement may be another one; `.max` if none comes.
  private func judgementEnd(of facts: PeerFacts, at now: Int64) -> Int64 {
    let chain = facts.verified.map { [$0.leaf] + $0.others } ?? [facts.leaf]
    let changes = [
      material.policy.bundles?.nextChange(after: now), material.policy.anchors?.nextChange(after: now),
      pinAnchors?.nextChange(after: now), material.workload.end(after: now),
    ]
    return (chain.compactMap(\.notAfter.seconds).filter { $0 > now } + changes.compactMap { $0 }).min() ?? .max
  }

  /// Judges stored certificates without a handshake: nobody has proved possession of the leaf's key.
  func judge(leaf: Certificate, sent: [Certificate], name: String) -> TrustResult {
    guard let stack = copenssl_sk_X509_new() else { return .refused(.chain("out of memory")) }
    defer { copenssl_sk_X509_free(stack) }
    for certificate in sent where copenssl_sk_X509_push(stack, certificate.handle) <= 0 {
      return .refused(.chain("out of memory"))
    }
    return judge(leaf: leaf.handle, sent: stack, name: name).result
  }

  /// Matches the SAN if there is one, else the CN if there is exactly one: X509_check_host(3) would match any of
  /// several. An address matches only an IP SAN.
  private static func matches(_ leaf: OpaquePointer, name: String) -> Bool {
    // X509_check_host matches `.test` with every name below test, and the name may come from a client ($host).
    guard let first = name.utf8.first, first != 0x2E else { return false }
    if X509_check_ip_asc(leaf, name, 0) == 1 { return true }
    var four = in_addr()
    var six = in6_addr()
    if inet_pton(AF_INET, name, &four) == 1 || inet_pton(AF_INET6, name, &six) == 1 { return false }
    var flags = UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS)
    // OpenSSL looks only for DNS names in the SAN; an address or a URI there rules the CN out as well.
    if X509_get_ext_by_NID(leaf, NID_subject_alt_name, -1) >= 0
      || Certificate(retaining: leaf).subject.commonName.sole == nil
    {
      flags |= UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
    }
    return X509_check_host(leaf, name, name.utf8.count, flags, nil) == 1
  }

  /// Judges when OpenSSL does not call back: for a resumed session, whose certificate it does not verify again, and for a
  /// connection that has outlived its judgement.
  /// The session holds only the certificates that the upstream sent, so this builds the chain again.
  func judgeAgain(_ ssl: OpaquePointer, name: String) -> UpstreamJudgement {
    judge(leaf: copenssl_get0_peer_certificate(ssl), sent: SSL_get_peer_cert_chain(ssl), name: name)
  }

  // MARK: Sessions

  /// Milliseconds after which an upstream proves its key again in a full handshake, however often it was resumed since.
  static let sessionLifetime: UInt64 = 3_600_000

  /// Keeps the session and takes ownership of it. `provenAt`: when the upstream last proved its key, in milliseconds of
  /// the event loop's clock.
  func keep(_ session: OpaquePointer, for key: SessionKey, provenAt: UInt64) {
    let kept = (session: KeptSession(owning: session), provenAt: provenAt)
    sessions.withLock { sessions in
      if sessions.count >= Self.sessionLimit && sessions[key] == nil, let other = sessions.keys.first {
        sessions.removeValue(forKey: other)
      }
      sessions[key] = kept
    }
  }

  /// Gives the session to an SSL, which takes its own reference. Returns when the upstream last proved its key; nil if
  /// the handshake is to be a full one.
  func resume(_ ssl: OpaquePointer, for key: SessionKey, now: UInt64) -> UInt64? {
    guard let kept = sessions.withLock({ $0[key] }) else { return nil }
    guard now < kept.provenAt.addingReportingOverflow(Self.sessionLifetime).partialValue else {
      forget(key)
      return nil
    }
    SSL_set_session(ssl, kept.session.handle)
    return kept.provenAt
  }

  /// Drops the session after a failed handshake, so that the next handshake is a full one.
  func forget(_ key: SessionKey) { sessions.withLock { _ = $0.removeValue(forKey: key) } }
}
