import Bytes
import COpenSSL
import Glibc

/// A certificate revocation list (RFC 5280 §5), parsed. That it was parsed says nothing of its signature, which
/// verification checks with the key of the issuer.
///
/// Whole lists only: a delta or an indirect one, or one for some reasons or some kinds of certificates, says less than
/// it seems to, and is refused by name (`ssl_crl`, `proxy_ssl_crl`).
// @unchecked: nothing is changed through the handle once it is made, and OpenSSL locks what it caches inside.
public final class RevocationList: @unchecked Sendable {
  /// X509_CRL*. Borrowed by callers.
  package let handle: OpaquePointer
  /// 32 octets over the whole list.
  package let sha256: [UInt8]
  /// Seconds since 1970. A list without a readable one is refused when it is parsed.
  package let thisUpdate: Int64
  /// Seconds since 1970 until when it counts; nil for a list that names no end. A list whose end stands there and can't
  /// be read is refused when it is parsed: nobody could say whether it still counts.
  package let nextUpdate: Int64?

  package init(der: UnsafeRawBufferPointer) throws(CryptoError) {
    guard let handle = decoded(der, free: X509_CRL_free, { d2i_X509_CRL(nil, $0, $1) }) else {
      throw .malformed("not a DER revocation list (\(OpenSSLError.drain()))")
    }
    let end = X509_CRL_get0_nextUpdate(handle)
    let times = (made: Certificate.seconds(X509_CRL_get0_lastUpdate(handle)), end: Certificate.seconds(end))
    self.handle = handle
    sha256 = Digest.collect { X509_CRL_digest(handle, EVP_sha256(), $0, $1) }
    thisUpdate = times.made ?? 0
    nextUpdate = times.end
    if times.made == nil { throw .absent("a revocation list whose thisUpdate can't be read") }
    if end != nil && times.end == nil { throw .absent("a revocation list whose nextUpdate can't be read") }
    if let fault { throw .absent(fault) }
  }

  deinit { X509_CRL_free(handle) }

  /// What keeps it from being used at all.
  private var fault: String? {
    var critical: CInt = 0
    if let delta = X509_CRL_get_ext_d2i(handle, NID_delta_crl, &critical, nil) {
      ASN1_INTEGER_free(delta.assumingMemoryBound(to: ASN1_INTEGER.self))
      return "a delta revocation list, which names only what changed"
    }
    guard let raw = X509_CRL_get_ext_d2i(handle, NID_issuing_distribution_point, &critical, nil) else {
      OpenSSLError.discard()
      // -1: the list has no such extension; -2: several; else one that can't be read.
      return critical == -1 ? nil : "a revocation list whose scope can't be read"
    }
    let scope = raw.assumingMemoryBound(to: ISSUING_DIST_POINT.self)
    defer { ISSUING_DIST_POINT_free(scope) }
    if copenssl_idp_is_indirect(scope) != 0 {
      return "an indirect revocation list, which speaks for other CAs than its issuer"
    }
    if copenssl_idp_is_partial(scope) != 0 {
      return "a partial revocation list, for some reasons or some kinds of certificates only"
    }
    return nil
  }

  package func isExpired(at now: Int64) -> Bool { nextUpdate.map { $0 <= now } ?? false }

  /// From when on its end is told: a day before, or the last quarter of a shorter life; nil for a list without an end.
  package var warnsFrom: Int64? {
    nextUpdate.map { $0 > thisUpdate ? $0 - min(86_400, ($0 - thisUpdate) / 4) : $0 }
  }

  /// RFC 2253, as $ssl_client_i_dn shows it.
  package var issuer: String { DistinguishedName.rfc2253(X509_CRL_get_issuer(handle)) }

  /// How many certificates it names.
  package var count: Int { Int(copenssl_sk_X509_REVOKED_num(handle)) }

  /// `Jan  1 00:00:00 2026 GMT`; "no end" where it names none.
  package var nextUpdateText: String {
    guard let time = X509_CRL_get0_nextUpdate(handle) else { return "no end" }
    return MemoryBIO.text { ASN1_TIME_print($0, time) - 1 }
  }

  package func isOfIssuer(of other: RevocationList) -> Bool {
    X509_NAME_cmp(X509_CRL_get_issuer(handle), X509_CRL_get_issuer(other.handle)) == 0
  }
}

extension RevocationList {
  /// Every list of a file: PEM, several in one too, or one as DER. At least one. Blocks, so never on an event loop.
  package static func loadAll(_ reference: MaterialReference) throws(MaterialError) -> [RevocationList] {
    let bytes = try reference.read(expecting: .revocation)
    return try reference.parsing(.revocation) { () throws(CryptoError) in
      try bytes.withUnsafeBytes { (raw) throws(CryptoError) in
        let sequence: UInt8 = 0x30
        if raw.first == sequence { return [try RevocationList(der: raw)] }
        let blocks = try PEMBlock.all(in: raw)
        var lists: [RevocationList] = []
        for block in blocks where block.label == "X509 CRL" {
          lists.append(
            try block.contents.withUnsafeBytes { (der) throws(CryptoError) in try RevocationList(der: der) })
        }
        guard !lists.isEmpty else {
          throw .absent(blocks.isEmpty ? "neither PEM nor DER" : "holds no revocation list")
        }
        return lists
      }
    }
  }

  /// `fresh`, and those in use until now whose place none of them may take: a list that is still valid gives way to one
  /// of its issuer that is valid and no older. Of several OpenSSL takes the newest that is valid.
  package static func taking(
    _ fresh: [RevocationList], after old: [RevocationList], now: Int64
  ) -> (lists: [RevocationList], kept: [RevocationList]) {
    let kept = old.filter { old in
      let successors = fresh.filter { $0.isOfIssuer(of: old) }
      return !old.isExpired(at: now) && !successors.isEmpty
        && !successors.contains {
          $0.thisUpdate >= old.thisUpdate && $0.thisUpdate <= now + tolerance && !$0.isExpired(at: now)
        }
    }
    return (fresh + kept, kept)
  }

  /// Seconds that an issuer's clock may be ahead.
  private static let tolerance: Int64 = 300

  /// Whether this list names the certificate, ended or not.
  package func revokes(_ certificate: Certificate) -> Bool {
    guard X509_NAME_cmp(X509_CRL_get_issuer(handle), X509_get_issuer_name(certificate.handle)) == 0 else {
      return false
    }
    var entry: OpaquePointer?
    return X509_CRL_get0_by_cert(handle, &entry, certificate.handle) == 1
  }
}
