import COpenSSL
import Crypto

/// By what clients are judged: a server block, and the generation whose access rules apply.
struct ClientPolicy {
  let context: ServerTLSContext
  /// Knows the access rules; nil: they are asked with each request, as those for a client behind a front.
  let chooser: ServerChooser?

  /// Returns why the access rules deny a client; nil when they allow the client. `client`: nil when nothing verified it.
  func denial(of client: VerifiedClient?) -> String? {
    guard context.settings.rules != nil else { return nil }
    return chooser?.denial(of: client, by: context)
  }
}

/// What a server block decides on a client: a value. Nothing of it is in effect until a stream or a request takes it.
package struct ClientJudgement: Sendable {
  package let verdict: ClientVerdict
  /// OpenSSL's result, X509_V_….
  package let code: Int32
  /// What was wrong with the client's chain, if OpenSSL has no words for it: those of an SVID.
  let reason: String?
  /// The chain of a client that was refused for its purpose alone: a CA vouches for what its certificate says.
  let purposelessChain: VerifiedChain?
  /// The certificate that is at fault; nil for the client's own, or if none is.
  var culprit: ChainCulprit?
  /// `ssl_verify_reject handshake`: the access rule that denies the client.
  package let denial: String?
  /// Whether a handshake may complete. Under another `ssl_verify_reject`, it may whatever the verdict is.
  package let isLetIn: Bool
  /// When judging began, in seconds since 1970.
  let moment: Int64
  /// From when on the client is to be judged again, in seconds since 1970; `.max`: never.
  package let validUntil: Int64
  /// The SHA-256 by which a kept chain is found; nil if nobody looked for one.
  var digest: [UInt8]?

  /// The judgement of a client that shows no certificate, or isn't asked for one.
  static func absent(at now: Int64) -> ClientJudgement {
    ClientJudgement(
      verdict: .absent, code: X509_V_OK, reason: nil, purposelessChain: nil, denial: nil, isLetIn: true, moment: now,
      validUntil: .max)
  }

  /// The judgement of a client whose certificate can't be verified at all.
  static func refused(_ leaf: Certificate, code: Int32, _ reason: String, at now: Int64) -> ClientJudgement {
    ClientJudgement(
      verdict: .refused(leaf, code: Int(code), reason: reason), code: code, reason: reason, purposelessChain: nil,
      denial: nil, isLetIn: false, moment: now, validUntil: .max)
  }
}

/// Judges a client's certificates by a server block: its trust anchors, CRLs, depth, purpose, pins and access rules. The
/// same code judges in a handshake, after a reload, when a judgement is over, and for a client behind a front. It writes
/// to no stream: what it finds on the way stays in it.
struct ClientJudge {
  /// Who has seen the proof that the client has the key.
  enum Witness {
    /// sallyport, in a handshake of this process.
    case handshake
    /// A trusted front, which has sent the certificates in a field.
    case front
    /// Nobody: the certificates are those of an earlier handshake, and are judged at another time than now. `renewsLists`:
    /// lists that have ended by then count as renewed, and still revoke what they revoke.
    case record(renewsLists: Bool)
  }

  private let policy: ClientPolicy
  private let witness: Witness
  private var client: VerifiedClient?
  private var reason: String?
  private var purposelessChain: VerifiedChain?
  /// By what the chain of a handshake is found among those that were verified; nil before it was looked for.
  private var key: VerifiedChainCache.Key?
  /// The chain that was found; nil if none was.
  private var kept: VerifiedChainCache.Kept?
  private var culprit: ChainCulprit?

  init(by policy: ClientPolicy, _ witness: Witness = .handshake) {
    self.policy = policy
    self.witness = witness
  }

  private var context: ServerTLSContext { policy.context }

  /// Judges a leaf with the certificates that came with it. `now`: seconds since 1970.
  static func judge(
    _ leaf: Certificate, sent: [Certificate], at now: Int64, by policy: ClientPolicy,
    _ witness: Witness = .handshake
  ) -> ClientJudgement {
    withExtendedLifetime((leaf, sent)) {
      var judge = ClientJudge(by: policy, witness)
      return judge.judge(leaf, sent, at: now)
        ?? .refused(
          leaf, code: X509_V_ERR_UNSPECIFIED, OpenSSLMeaning.text(verification: Int(X509_V_ERR_UNSPECIFIED)), at: now)
    }
  }

  /// Verifies as OpenSSL's ssl_verify_cert_chain does. Returns nil if OpenSSL can't begin.
  private mutating func judge(_ leaf: Certificate, _ others: [Certificate], at now: Int64) -> ClientJudgement? {
    guard let store = X509_STORE_CTX_new(), let sent = copenssl_sk_X509_new() else { return nil }
    defer {
      X509_STORE_CTX_free(store)
      // Only the stack: the certificates are borrowed, and outlive the search.
      copenssl_sk_X509_free(sent)
      ERR_clear_error()
    }
    for certificate in others where copenssl_sk_X509_push(sent, certificate.handle) <= 0 { return nil }
    guard X509_STORE_CTX_init(store, context.verificationStore, leaf.handle, sent) == 1,
      X509_STORE_CTX_set_default(store, "ssl_client") == 1
    else { return nil }
    X509_STORE_CTX_set_depth(store, Int32(truncatingIfNeeded: context.settings.verifyDepth))
    if case .record = witness { X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(store), Int(now)) }
    return judge(store, at: now)
  }

  /// Judges what OpenSSL has set up for a verification, and leaves the fault in `store`, from which OpenSSL derives its
  /// alert. Returns nil if there is no certificate.
  ///
  /// `completes`: OpenSSL's handshake goes on with the certificates of `store`, and gets those with their keys.
  mutating func judge(_ store: OpaquePointer, at now: Int64, completes: Bool = false) -> ClientJudgement? {
    guard X509_STORE_CTX_get0_cert(store) != nil else { return nil }
    X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(store), context.chainLevel)
    // What a front has sent is remembered by the field that it stood in, and what a record has, for another time, is not.
    if isHandshake, context.pinsAlone == nil {
      key = VerifiedChainCache.Key(store)
      kept = key.flatMap { context.verifiedChains.find($0, now: now) }
    }
    if completes {
      kept?.sent.replace(in: store)
      PeerCertificates.decodeKeys(in: store)
    }
    guard let handle = X509_STORE_CTX_get0_cert(store) else { return nil }
    let leaf = Certificate(retaining: handle)
    if let pins = context.pinsAlone {
      judge(leaf, by: pins, store, at: now)
    } else {
      verifyChain(store, at: now)
      checkPins(leaf, store)
    }
    // OpenSSL reports success but nothing verified the client: this must not look like success.
    if client == nil, X509_STORE_CTX_get_error(store) == X509_V_OK {
      X509_STORE_CTX_set_error(store, X509_V_ERR_UNSPECIFIED)
    }
    let judgement = judgement(
      of: leaf, code: X509_STORE_CTX_get_error(store), sent: Self.sent(leaf, store), at: now)
    X509_STORE_CTX_set_error(store, judgement.code)
    return judgement
  }

  private static func sent(_ leaf: Certificate, _ store: OpaquePointer) -> [Certificate] { [leaf] + sent(in: store) }

  /// The certificates that came with a leaf. In a handshake, the leaf is the first of them.
  static func sent(in store: OpaquePointer) -> [Certificate] {
    let stack = X509_STORE_CTX_get0_untrusted(store)
    return (0..<max(0, copenssl_sk_X509_num(stack))).compactMap { index in
      copenssl_sk_X509_value(stack, index).map { Certificate(retaining: $0) }
    }
  }

  /// Sums up. `sent`: the client's certificates, which say until when a client counts that nothing verified.
  private func judgement(
    of leaf: Certificate, code: Int32, sent: @autoclosure () -> [Certificate], at now: Int64
  ) -> ClientJudgement {
    var code = code, denial: String?, isLetIn = true
    if context.settings.rejection == .handshake {
      let isFine = code == X509_V_OK || context.excuses(code)
      denial = isFine ? policy.denial(of: client) : nil
      isLetIn = isFine && denial == nil
      // The alert is bad_certificate: OpenSSL has no verify error that it maps to access_denied.
      if denial != nil { code = X509_V_ERR_CERT_REJECTED }
    }
    let verdict = ClientVerdict(
      of: leaf, code: Int(code), mode: context.settings.verification, client: client, fault: reason,
      culprit: culprit)
    return ClientJudgement(
      verdict: verdict, code: code, reason: reason, purposelessChain: purposelessChain, culprit: culprit,
      denial: denial, isLetIn: isLetIn, moment: now,
      validUntil: context.judgementEnd(of: verdict, sent: sent(), at: now), digest: key?.digest)
  }

  // MARK: Pins

  /// Judges the client by pins where there is no CA to verify a chain by.
  private mutating func judge(_ leaf: Certificate, by pins: ClientPins, _ store: OpaquePointer, at now: Int64) {
    let found = pins.judge(
      leaf: leaf.handle, level: context.chainLevel, purpose: context.settings.clientPurpose, at: recordTime(now))
    switch found {
    case .success(let found):
      client = found
      X509_STORE_CTX_set_error(store, X509_V_OK)
    case .failure(let fault): X509_STORE_CTX_set_error(store, fault.code)
    }
  }

  /// Refuses a client that no pin matches, although its chain verified, or needn't (`optional_no_ca`). A fault of the chain
  /// is told first.
  private mutating func checkPins(_ leaf: Certificate, _ store: OpaquePointer) {
    guard let pins = context.pins else { return }
    let code = X509_STORE_CTX_get_error(store)
    guard code == X509_V_OK || context.excuses(code) else { return }
    if client?.chain.map({ pins.match($0) }) ?? pins.pins.matches(leaf: leaf) { return }
    client = nil
    X509_STORE_CTX_set_error(store, ClientPins.mismatch)
  }

  // MARK: Chains

  /// Verifies the client's chain, unless it is among those that were verified. Sets `client` if it is verified, and else
  /// the error in the store.
  private mutating func verifyChain(_ store: OpaquePointer, at now: Int64) {
    // OpenSSL never calls back for a resumed TLS 1.3 session, so this is a full handshake, or what it left.
    if let kept {
      client = .chain(kept.chain)
      return X509_STORE_CTX_set_error(store, X509_V_OK)
    }
    searchChain(store, at: now)
    if let key, let chain = client?.chain, X509_STORE_CTX_get_error(store) == X509_V_OK {
      let sent = SharedCertificates(X509_STORE_CTX_get0_untrusted(store), in: chain)
      context.verifiedChains.keep(
        chain, sent: sent, for: key, judgementEnd: context.judgementEnd(of: now), now: now)
    }
  }

  private var isHandshake: Bool { if case .handshake = witness { true } else { false } }

  private var renewsLists: Bool { if case .record(true) = witness { true } else { false } }

  /// When to judge in place of the present; nil: at present.
  private func recordTime(_ now: Int64) -> Int64? { if case .record = witness { now } else { nil } }

  private mutating func searchChain(_ store: OpaquePointer, at now: Int64) {
    if let bundles = context.bundles { return searchChain(store, bundles, at: now) }
    if context.settings.verification == .optionalNoCA { return searchAnyChain(store, at: now) }
    let (result, faults) = walk(store, Self.walkPastMissingList)
    let settled = context.settle(store, result: result, faults, at: now)
    if case .front = witness {} else { Self.nameFaultOfLoneLeaf(store) }
    client = settled.verified.map { .chain($0) }
    purposelessChain = settled.purposeless
  }

  /// Verifies the chain of a client that needs no trust anchor (`optional_no_ca`).
  private mutating func searchAnyChain(_ store: OpaquePointer, at now: Int64) {
    let (result, faults) = walk(store, Self.walkOn)
    let code = faults.verdict(result: result, last: X509_STORE_CTX_get_error(store))
    X509_STORE_CTX_set_error(store, code)
    if code == X509_V_OK, context.isRevokedByEndedList(X509_STORE_CTX_get0_chain(store), at: now) {
      X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REVOKED)
    } else if code == X509_V_OK {
      client = VerifiedChain(X509_STORE_CTX_get0_chain(store)).map { .chain($0) }
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
  private mutating func searchChain(_ store: OpaquePointer, _ bundles: TrustBundles, at now: Int64) {
    guard let leaf = X509_STORE_CTX_get0_cert(store) else {
      return X509_STORE_CTX_set_error(store, X509_V_ERR_UNSPECIFIED)
    }
    var verification = ChainVerification(
      depth: context.settings.verifyDepth, level: context.chainLevel, use: .client(context.settings.clientPurpose))
    verification.moment = recordTime(now)
    switch bundles.find(leaf: leaf, sent: X509_STORE_CTX_get0_untrusted(store), by: verification) {
    case .verified(let chain):
      client = .chain(chain)
      X509_STORE_CTX_set_error(store, X509_V_OK)
    case .faulty(let fault):
      // OpenSSL's own words are those of the code.
      reason = fault.text == OpenSSLMeaning.text(verification: Int(fault.code)) ? nil : fault.text
      X509_STORE_CTX_set_error(store, fault.code == X509_V_OK ? X509_V_ERR_UNSPECIFIED : fault.code)
    case .unseen: X509_STORE_CTX_set_error(store, X509_V_ERR_UNSPECIFIED)
    }
  }

  // MARK: Walks along a chain

  /// What OpenSSL's verify callback finds.
  private struct Walk {
    let purpose: ClientPurpose
    let renewsLists: Bool
    var faults = ChainFaults()

    /// Whether a fault is none: the root needs no list, or the list counts as renewed.
    func excuses(_ fault: Int32, in store: OpaquePointer) -> Bool {
      RevocationList.excusesRoot(fault, in: store) || (renewsLists && fault == X509_V_ERR_CRL_HAS_EXPIRED)
    }
  }

  private typealias VerifyCallback = @convention(c) (Int32, OpaquePointer?) -> Int32

  /// The index that X509_STORE_CTX_set_app_data uses.
  private static let walkIndex: Int32 = 0

  /// Has OpenSSL search for a chain. Returns OpenSSL's result, and the faults that `callback` has noted.
  private mutating func walk(_ store: OpaquePointer, _ callback: VerifyCallback) -> (result: Int32, faults: ChainFaults)
  {
    var walk = Walk(purpose: context.settings.clientPurpose, renewsLists: renewsLists)
    let result = withUnsafeMutablePointer(to: &walk) { walk in
      // Without its place for faults, the callback ends the search at the first one.
      X509_STORE_CTX_set_ex_data(store, Self.walkIndex, walk)
      X509_STORE_CTX_set_verify_cb(store, callback)
      defer { X509_STORE_CTX_set_ex_data(store, Self.walkIndex, nil) }
      return X509_verify_cert(store)
    }
    culprit = walk.faults.culprit
    return (result, walk.faults)
  }

  private static func walk(_ store: OpaquePointer) -> UnsafeMutablePointer<Walk>? {
    X509_STORE_CTX_get_ex_data(store, walkIndex)?.assumingMemoryBound(to: Walk.self)
  }

  /// X509_STORE_CTX_set_verify_cb: continues past a missing CRL, so that a revoked CA is told as revoked, as in nginx. Also
  /// past a leaf that is not one for clients, because the metrics tell by whom such leaves were issued, and only a chain
  /// that verified in all else says that.
  private static let walkPastMissingList: VerifyCallback = { isFine, store in
    guard isFine == 0 else { return 1 }
    guard let store, let walk = ClientJudge.walk(store) else { return 0 }
    let fault = X509_STORE_CTX_get_error(store)
    if walk.pointee.excuses(fault, in: store) {
      X509_STORE_CTX_set_error(store, X509_V_OK)
      return 1
    }
    if ClientPurpose.concernsLeaf(fault, in: store) {
      // No fault came before this one: each other one ends the walk, or comes later. One that comes later is told.
      walk.pointee.faults.notePurpose()
      X509_STORE_CTX_set_error(store, X509_V_OK)
      return 1
    }
    return walk.pointee.faults.goesOn(past: fault, at: ChainCulprit(in: store)) ? 1 : 0
  }

  /// X509_STORE_CTX_set_verify_cb under `optional_no_ca`: continues past each fault, as nginx does.
  private static let walkOn: VerifyCallback = { isFine, store in
    guard let store, let walk = ClientJudge.walk(store) else { return 0 }
    guard isFine == 0 else { return 1 }
    let fault = X509_STORE_CTX_get_error(store)
    if walk.pointee.excuses(fault, in: store) || walk.pointee.purpose.excuses(fault, in: store) {
      // The fault that was excused before, for which the client is unverified, stays.
      X509_STORE_CTX_set_error(store, walk.pointee.faults.lastExcused)
    } else {
      walk.pointee.faults.note(fault, at: ChainCulprit(in: store))
    }
    return 1
  }
}
