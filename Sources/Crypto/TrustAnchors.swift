import COpenSSL

/// The certificates that a chain must end at, in the form that OpenSSL verifies against.
///
/// X509_V_FLAG_PARTIAL_CHAIN stays off, as in nginx: a chain must end at a self-signed one of them.
// @unchecked: nothing is added once it is made, and OpenSSL locks an X509_STORE for its readers.
public final class TrustAnchors: @unchecked Sendable {
  package enum Source: Sendable, Hashable {
    case certificates([Certificate])
    case system
    case certificatesAndSystem([Certificate])
  }

  /// X509_STORE*. Borrowed by callers: who keeps it longer than this object takes a reference of its own.
  package let handle: OpaquePointer
  /// Those given as certificates, in order, each once; the system's are not listed.
  package let certificates: [Certificate]
  /// What revokes certificates of theirs. With one, every CA of a chain must have one, as in nginx.
  package let revocations: [RevocationList]
  /// 32 octets that are the same for the same anchors and revocation lists in any order: part of a session-id context.
  package let digest: [UInt8]

  /// The system's alone, read once in the life of the process.
  package static let system: Result<TrustAnchors, OpenSSLError> = Result { () throws(OpenSSLError) in
    try TrustAnchors(.system)
  }

  package init(_ source: Source, revocations: [RevocationList] = []) throws(OpenSSLError) {
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
    digest = Self.digest(of: certificates, includesSystem: includesSystem, revocations)
    for certificate in certificates {
      guard X509_STORE_add_cert(store, certificate.handle) == 1 else { throw OpenSSLError.drain() }
    }
    for list in revocations {
      guard X509_STORE_add_crl(store, list.handle) == 1 else { throw OpenSSLError.drain() }
    }
    if !revocations.isEmpty {
      X509_STORE_set_flags(store, UInt(X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL))
    }
    if includesSystem {
      guard X509_STORE_set_default_paths(store) == 1 else { throw OpenSSLError.drain() }
      // A system without anchors leaves an error behind that is nobody's: then no chain verifies.
      OpenSSLError.discard()
    }
  }

  deinit { X509_STORE_free(handle) }

  /// The names to send to clients as acceptable CAs.
  package var subjects: [DistinguishedName] { certificates.map(\.subject) }

  /// Seconds since 1970: from then on a revocation list refuses everybody of its CA; nil where no list has an end.
  package var revocationsEnd: Int64? { revocations.compactMap(\.nextUpdate).min() }

  /// Whether a list that has ended names one of these. OpenSSL goes by the list that is valid, but what its issuer has
  /// revoked since does not come back.
  package func endedListRevokes(_ certificates: [Certificate], now: Int64) -> Bool {
    revocations.contains { list in list.isExpired(at: now) && certificates.contains { list.revokes($0) } }
  }

  private static func digest(
    of certificates: [Certificate], includesSystem: Bool, _ revocations: [RevocationList]
  ) -> [UInt8] {
    func sorted(_ digests: [[UInt8]]) -> [UInt8] {
      digests.sorted { $0.lexicographicallyPrecedes($1) }.flatMap { $0 }
    }
    return Digest.of(
      sorted(certificates.map(\.sha256)) + (includesSystem ? [1] : [0]) + sorted(revocations.map(\.sha256)))
  }
}
