import COpenSSL

/// The certificates that a chain must end at, in the form that OpenSSL verifies against.
///
/// X509_V_FLAG_PARTIAL_CHAIN is off, as in nginx: a chain must end at a self-signed anchor.
// @unchecked: nothing is added after `init`, and OpenSSL locks an X509_STORE for its readers.
public final class TrustAnchors: @unchecked Sendable {
  package enum Source: Sendable, Hashable {
    case certificates([Certificate])
    case system
    case certificatesAndSystem([Certificate])
  }

  /// X509_STORE*, borrowed. A caller that keeps it longer than this object takes its own reference.
  package let handle: OpaquePointer
  /// The anchors given as certificates, in order, each once; the system's are not listed.
  package let certificates: [Certificate]
  /// The CRLs. If there is a CRL, every CA of a chain must have one, as in nginx.
  package let revocations: [RevocationList]
  /// 32 octets, equal for the same anchors and CRLs in any order: part of a session-id context.
  package let digest: [UInt8]
  /// Seconds since 1970 at which a CRL or an anchor given as certificate begins, ascending.
  private let begins: [Int64]

  /// The system's anchors alone, loaded once in the life of the process.
  package static let system: Result<TrustAnchors, OpenSSLError> = Result { () throws(OpenSSLError) in
    try TrustAnchors(.system)
  }

  /// `needsLists`: every CA of a chain must have a CRL even if there is none at all.
  package init(
    _ source: Source, revocations: [RevocationList] = [], needsLists: Bool = false
  ) throws(OpenSSLError) {
    let given: [Certificate]
    let includesSystem: Bool
    switch source {
    case .certificates(let certificates): (given, includesSystem) = (certificates, false)
    case .system: (given, includesSystem) = ([], true)
    case .certificatesAndSystem(let certificates): (given, includesSystem) = (certificates, true)
    }
    guard let store = X509_STORE_new() else { throw OpenSSLError.drain() }
    handle = store
    var seen: Set<Certificate> = []
    certificates = given.filter { seen.insert($0).inserted }
    self.revocations = revocations
    digest = Self.digest(
      of: certificates, includesSystem: includesSystem, revocations, needsLists: needsLists && revocations.isEmpty)
    begins = (certificates.compactMap(\.notBefore.seconds) + revocations.map(\.thisUpdate)).sorted()
    for certificate in certificates {
      guard X509_STORE_add_cert(store, certificate.handle) == 1 else { throw OpenSSLError.drain() }
    }
    for list in revocations {
      guard X509_STORE_add_crl(store, list.handle) == 1 else { throw OpenSSLError.drain() }
    }
    guard RevocationChoice.install(in: store, revocations) else { throw OpenSSLError.drain() }
    if !revocations.isEmpty || needsLists {
      X509_STORE_set_flags(store, UInt(X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL))
    }
    if includesSystem {
      guard X509_STORE_set_default_paths(store) == 1 else { throw OpenSSLError.drain() }
      // A system without anchors leaves an error in the queue, although nothing failed. Then no chain verifies.
      OpenSSLError.discard()
    }
  }

  deinit { X509_STORE_free(handle) }

  /// The names to send to clients as acceptable CAs.
  package var subjects: [DistinguishedName] { certificates.map(\.subject) }

  /// Seconds since 1970 at which the first CRL expires; nil when no CRL expires. From then on that CRL refuses every
  /// certificate of its CA.
  package var revocationsEnd: Int64? { revocations.compactMap(\.nextUpdate).min() }

  /// Seconds since 1970 until which a verification at `moment` has the same result, as far as these anchors and CRLs
  /// decide it; nil when none of them begins or expires. A CRL from the future may revoke what the present one doesn't,
  /// and a CA's certificate from the future may restrict what the present one allows.
  package func judgementEnd(of moment: Int64) -> Int64? {
    [revocationsEnd, begins.first { $0 > moment }].compactMap { $0 }.min()
  }

  /// The first moment after `moment`, in seconds since 1970, at which one of these CRLs begins or expires, or an anchor
  /// given as a certificate begins; nil if none comes. Unlike `judgementEnd`, this knows no past: what expired before
  /// `moment` has its part in the judgement of that moment.
  package func nextChange(after moment: Int64) -> Int64? {
    (begins + revocations.compactMap(\.nextUpdate)).filter { $0 > moment }.min()
  }

  /// Whether an expired CRL lists a certificate of this chain, the leaf first. OpenSSL uses the valid CRL, but a certificate
  /// that its issuer once revoked stays revoked.
  package func endedListRevokes(_ chain: [Certificate], now: Int64) -> Bool {
    revocations.contains { $0.isExpired(at: now) && $0.revokes(anyOf: chain) }
  }

  private static func digest(
    of certificates: [Certificate], includesSystem: Bool, _ revocations: [RevocationList], needsLists: Bool
  ) -> [UInt8] {
    func sorted(_ digests: [[UInt8]]) -> [UInt8] {
      digests.sorted { $0.lexicographicallyPrecedes($1) }.flatMap { $0 }
    }
    return Digest.of(
      sorted(certificates.map(\.sha256)) + (includesSystem ? [1] : [0]) + (needsLists ? [2] : [])
        + sorted(revocations.map(\.sha256)))
  }
}
