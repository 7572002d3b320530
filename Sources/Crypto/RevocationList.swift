import Bytes
import COpenSSL
import Glibc

/// A certificate revocation list (RFC 5280 §5), parsed but not verified: verification checks its signature with the
/// issuer's key.
///
/// A CRL covers all certificates of its issuer, or those of its `scope`: verification refuses a certificate that no CRL
/// covers. Parsing refuses delta and indirect CRLs and those for some reasons or for attribute certificates, with an error
/// that names the kind: OpenSSL can't use them.
// @unchecked: nothing changes the X509_CRL through the handle after `init`, and OpenSSL locks what it caches inside.
public final class RevocationList: @unchecked Sendable {
  /// X509_CRL*. Borrowed by callers.
  package let handle: OpaquePointer
  /// 32 octets: the SHA-256 of the whole CRL.
  package let sha256: [UInt8]
  /// Seconds since 1970. Parsing refuses a CRL without a readable thisUpdate.
  package let thisUpdate: Int64
  /// Seconds since 1970 when the CRL expires; nil without a nextUpdate. Parsing refuses a CRL with an unreadable
  /// nextUpdate, because nobody could tell whether it is still valid.
  package let nextUpdate: Int64?
  /// nil without one. Parsing refuses a CRL with an unreadable number, because nobody could tell whether it is the newest.
  package let number: Number?
  /// The key identifier of the key that signs the CRL, by the CRL itself; nil without one.
  let signingKey: [UInt8]?
  package let scope: Scope

  package init(der: UnsafeRawBufferPointer) throws(CryptoError) {
    guard let handle = decoded(der, free: X509_CRL_free, { d2i_X509_CRL(nil, $0, $1) }) else {
      throw .malformed("not a DER revocation list (\(OpenSSLError.drain()))")
    }
    let end = UnsafeRawPointer(X509_CRL_get0_nextUpdate(handle))
    let times = (
      made: Certificate.seconds(UnsafeRawPointer(X509_CRL_get0_lastUpdate(handle))), end: Certificate.seconds(end)
    )
    self.handle = handle
    sha256 = Digest.collect { X509_CRL_digest(handle, EVP_sha256(), $0, $1) }
    thisUpdate = times.made ?? 0
    nextUpdate = times.end
    let numbering = Number.read(of: handle)
    number = try? numbering.get()
    signingKey = Self.signingKey(of: handle)
    let scope = Scope.read(of: handle)
    self.scope = (try? scope.get()) ?? Scope()
    if times.made == nil { throw .absent("a revocation list whose thisUpdate can't be read") }
    if end != nil && times.end == nil { throw .absent("a revocation list whose nextUpdate can't be read") }
    if case .failure(.unreadable) = numbering { throw .absent("a revocation list whose number can't be read") }
    if let fault { throw .absent(fault) }
    if case .failure(let fault) = scope { throw .absent(fault.description) }
  }

  deinit { X509_CRL_free(handle) }

  /// Why the CRL can't be used at all; nil when it can.
  private var fault: String? {
    var critical: CInt = 0
    if let delta = X509_CRL_get_ext_d2i(handle, NID_delta_crl, &critical, nil) {
      copenssl_integer_free(delta)
      return "a delta revocation list, which names only what changed"
    }
    OpenSSLError.discard()
    return nil
  }

  package func isExpired(at now: Int64) -> Bool { nextUpdate.map { $0 <= now } ?? false }

  /// A CRL without a nextUpdate never ends.
  package func age(_ notice: ExpiryNotice, at now: Int64) -> ExpiryNotice.ListAge {
    notice.listAge(from: thisUpdate, to: nextUpdate, at: now)
  }

  /// Whether it has begun and has not ended.
  package func isInForce(at now: Int64) -> Bool { thisUpdate <= now && !isExpired(at: now) }

  /// RFC 2253, as in $ssl_client_i_dn.
  package var issuer: String { DistinguishedName.rfc2253(X509_CRL_get_issuer(handle)) }

  /// The number of certificates that the CRL lists.
  package var count: Int { Int(copenssl_sk_X509_REVOKED_num(handle)) }

  /// `Jan  1 00:00:00 2026 GMT`
  package var thisUpdateText: String {
    guard let time = X509_CRL_get0_lastUpdate(handle) else { return "no beginning" }
    return MemoryBIO.text { ASN1_TIME_print($0, time) - 1 }
  }

  /// `Jan  1 00:00:00 2026 GMT`; "no end" without a nextUpdate.
  package var nextUpdateText: String {
    guard let time = X509_CRL_get0_nextUpdate(handle) else { return "no end" }
    return MemoryBIO.text { ASN1_TIME_print($0, time) - 1 }
  }

  package func isOfIssuer(of other: RevocationList) -> Bool {
    X509_NAME_cmp(X509_CRL_get_issuer(handle), X509_CRL_get_issuer(other.handle)) == 0
  }
}

extension RevocationList {
  /// Loads every CRL of a file: one or more as PEM, or one as DER. At least one. Blocks, so never call it on an event
  /// loop.
  package static func loadAll(_ reference: MaterialReference) throws(MaterialError) -> [RevocationList] {
    let bytes = try reference.read(expecting: .revocation)
    return try reference.parsing(.revocation) { () throws(CryptoError) in
      try bytes.withUnsafeBytes { (raw) throws(CryptoError) in
        let sequence: UInt8 = 0x30
        return raw.first == sequence ? [try RevocationList(der: raw)] : try all(inPEM: raw)
      }
    }
  }

  /// Reads every CRL of a text. At least one.
  package static func all(inPEM raw: UnsafeRawBufferPointer) throws(CryptoError) -> [RevocationList] {
    let blocks = try PEMBlock.all(in: raw)
    var lists: [RevocationList] = []
    for block in blocks where block.label == "X509 CRL" {
      lists.append(try block.contents.withUnsafeBytes { (der) throws(CryptoError) in try RevocationList(der: der) })
    }
    guard !lists.isEmpty else {
      throw .absent(blocks.isEmpty ? "neither PEM nor DER" : "holds no revocation list")
    }
    return lists
  }

  /// Whether this CRL lists the certificate, whether or not the CRL has expired.
  package func revokes(_ certificate: Certificate) -> Bool {
    guard X509_NAME_cmp(X509_CRL_get_issuer(handle), X509_get_issuer_name(certificate.handle)) == 0 else {
      return false
    }
    var entry: OpaquePointer?
    return X509_CRL_get0_by_cert(handle, &entry, certificate.handle) == 1
  }

  /// Whether this CRL lists a certificate of a chain, the leaf first, whether or not the CRL has expired. A CRL of another
  /// key of the issuer's name is not the issuer's.
  package func revokes(anyOf chain: [Certificate]) -> Bool {
    chain.indices.contains { index in
      guard revokes(chain[index]) else { return false }
      let issuer = chain.indices.contains(index + 1) ? chain[index + 1] : chain[index]
      // A chain that ends at a pinned certificate has no issuer for it: then the name is enough.
      return !issuer.issued(chain[index]) || isSigned(by: issuer)
    }
  }
}
