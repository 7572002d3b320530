import COpenSSL
import Glibc

/// Makes CRLs, for the local authority and every test. The hash of signatures is SHA-256 where the key leaves the choice.
package struct RevocationListBuilder: Sendable {
  package var revoked: [RevocationList.Entry]
  /// RFC 5280 §5.2.3: increases from CRL to CRL.
  package var number: Int
  /// Seconds since 1970; may be in the past.
  package var thisUpdate: Int64
  package var nextUpdate: Int64
  /// Octets that replace nextUpdate and need not be a time: for tests of what must be refused.
  package var rawNextUpdate: [UInt8]?
  /// For tests of what must be refused.
  package var isDelta = false
  /// The issuingDistributionPoint in OpenSSL's words (x509v3_config(5)), for tests of lists of other CAs.
  package var scope: String?
  /// Whether the list names the key that signs it, which lists of other CAs need not do.
  package var namesKey = true

  /// Makes a CRL that is valid from an hour ago until `days` days from now.
  package init(revoking revoked: [Certificate], number: Int = 1, days: Int64 = 30) {
    let start = Int64(time(nil)) - 3600
    self.init(entries: revoked.map { RevocationList.Entry(serial: $0.serial, date: start) }, number: number, days: days)
  }

  package init(entries: [RevocationList.Entry], number: Int, days: Int64) {
    let now = Int64(time(nil))
    revoked = entries
    self.number = number
    thisUpdate = now - 3600
    nextUpdate = now + days * 86_400
  }

  /// Returns the CRL as PEM, signed by the authority that issued the certificates.
  package func pem(signedBy authority: CertifiedKey) throws(OpenSSLError) -> String {
    guard let draft = X509_CRL_new() else { throw OpenSSLError.drain() }
    defer { X509_CRL_free(draft) }
    let version2 = 1
    try succeed(X509_CRL_set_version(draft, version2))
    try succeed(X509_CRL_set_issuer_name(draft, X509_get_subject_name(authority.certificate.handle)))
    try succeed(copenssl_crl_set_times(draft, time_t(thisUpdate), time_t(nextUpdate)))
    if let rawNextUpdate {
      try succeed(copenssl_crl_set_raw_end(draft, rawNextUpdate, CInt(clamping: rawNextUpdate.count)))
    }
    for entry in revoked { try add(entry, to: draft) }
    if namesKey { try add(NID_authority_key_identifier, "keyid:always", to: draft, authority.certificate.handle) }
    if let scope {
      try add(NID_issuing_distribution_point, "critical,\(scope)", to: draft, authority.certificate.handle)
    }
    try addNumber(NID_crl_number, isCritical: false, to: draft)
    if isDelta { try addNumber(NID_delta_crl, isCritical: true, to: draft) }
    try succeed(X509_CRL_sort(draft))
    guard X509_CRL_sign(draft, authority.key.handle, authority.key.digest(EVP_sha256())) > 0 else {
      throw OpenSSLError.drain()
    }
    return MemoryBIO.text { PEM_write_bio_X509_CRL($0, draft) }
  }

  private func add(_ named: RevocationList.Entry, to draft: OpaquePointer) throws(OpenSSLError) {
    guard let entry = X509_REVOKED_new() else { throw OpenSSLError.drain() }
    do throws(OpenSSLError) {
      try Self.fill(entry, named)
      try succeed(X509_CRL_add0_revoked(draft, entry))
    } catch {
      X509_REVOKED_free(entry)
      throw error
    }
  }

  static func fill(_ entry: OpaquePointer, _ named: RevocationList.Entry) throws(OpenSSLError) {
    var number: OpaquePointer?
    guard BN_hex2bn(&number, named.serial) > 0, let number else { throw OpenSSLError.drain() }
    defer { BN_free(number) }
    guard let serial = BN_to_ASN1_INTEGER(number, nil) else { throw OpenSSLError.drain() }
    defer { ASN1_INTEGER_free(serial) }
    try succeed(X509_REVOKED_set_serialNumber(entry, serial))
    try succeed(copenssl_revoked_set_date(entry, time_t(named.date)))
    guard let reason = named.reason else { return }
    guard let code = ASN1_ENUMERATED_new() else { throw OpenSSLError.drain() }
    defer { ASN1_ENUMERATED_free(code) }
    try succeed(ASN1_ENUMERATED_set(code, reason.rawValue))
    try succeed(X509_REVOKED_add1_ext_i2d(entry, NID_crl_reason, UnsafeMutableRawPointer(code), 0, 0))
  }

  private func add(
    _ kind: CInt, _ value: String, to draft: OpaquePointer, _ issuer: OpaquePointer
  ) throws(OpenSSLError) {
    var context = X509V3_CTX()
    X509V3_set_ctx(&context, issuer, nil, nil, draft, 0)
    guard let made = X509V3_EXT_conf_nid(nil, &context, kind, value) else { throw OpenSSLError.drain() }
    defer { X509_EXTENSION_free(made) }
    try succeed(X509_CRL_add_ext(draft, made, -1))
  }

  private func addNumber(_ kind: CInt, isCritical: Bool, to draft: OpaquePointer) throws(OpenSSLError) {
    guard let integer = ASN1_INTEGER_new() else { throw OpenSSLError.drain() }
    defer { ASN1_INTEGER_free(integer) }
    try succeed(ASN1_INTEGER_set_int64(integer, Int64(number)))
    try succeed(X509_CRL_add1_ext_i2d(draft, kind, UnsafeMutableRawPointer(integer), isCritical ? 1 : 0, 0))
  }

  private func succeed(_ result: CInt) throws(OpenSSLError) { try Self.succeed(result) }

  private static func succeed(_ result: CInt) throws(OpenSSLError) {
    guard result == 1 else { throw OpenSSLError.drain() }
  }
}
