import COpenSSL
import Glibc

/// Stand-ins for objects whose private keys this process doesn't have, for rehearsals: all that a certificate or a list
/// says stays, and only its key and its signature are others.
extension Certificate {
  /// The same certificate for another key, signed by another. Its subject, issuer, dates, serial and extensions stay, and a
  /// hash that is too weak for a signature does too: whatever verification finds wrong with them, it finds again.
  package func standIn(for key: PrivateKey, signedBy signer: PrivateKey) throws(OpenSSLError) -> Certificate {
    guard let copy = X509_dup(handle) else { throw OpenSSLError.drain() }
    let draft = Certificate(owning: copy)
    guard X509_set_pubkey(copy, key.handle) == 1,
      X509_sign(copy, signer.handle, signer.digest(standInDigest)) > 0
    else { throw OpenSSLError.drain() }
    // Read anew: OpenSSL keeps what it has found out about the former key.
    do throws(CryptoError) { return try Certificate(der: draft.der) } catch {
      throw OpenSSLError(description: "\(error)")
    }
  }

  /// The hash of the signature, if it is one that verification may refuse; SHA-256 in place of others.
  private var standInDigest: OpaquePointer? {
    var hash: CInt = 0
    defer { OpenSSLError.discard() }
    guard X509_get_signature_info(handle, &hash, nil, nil, nil) == 1 else { return EVP_sha256() }
    return switch hash {
    case NID_sha1: EVP_sha1()
    case NID_md5: EVP_md5()
    default: EVP_sha256()
    }
  }

  /// Whether it has the extension subjectKeyIdentifier, by which certificates name their issuer's key.
  package var hasKeyIdentifier: Bool { X509_get0_subject_key_id(handle) != nil }

  /// Whether this certificate's key signed the other, and its name is that of the other's issuer.
  package func signed(_ other: Certificate) -> Bool {
    defer { OpenSSLError.discard() }
    guard X509_NAME_cmp(X509_get_subject_name(handle), X509_get_issuer_name(other.handle)) == 0,
      let key = X509_get0_pubkey(handle)
    else { return false }
    return X509_verify(other.handle, key) == 1
  }
}

extension RevocationList {
  /// The same list with one more serial number, signed by another key of the same issuer. `serial`: hexadecimal.
  package func standIn(
    revoking serial: String, signedBy signer: PrivateKey
  ) throws(OpenSSLError) -> RevocationList {
    guard let draft = X509_CRL_dup(handle) else { throw OpenSSLError.drain() }
    defer { X509_CRL_free(draft) }
    guard let entry = X509_REVOKED_new() else { throw OpenSSLError.drain() }
    do throws(OpenSSLError) {
      try RevocationListBuilder.fill(entry, Entry(serial: serial, date: thisUpdate))
    } catch {
      X509_REVOKED_free(entry)
      throw error
    }
    guard X509_CRL_add0_revoked(draft, entry) == 1 else {
      X509_REVOKED_free(entry)
      throw OpenSSLError.drain()
    }
    guard X509_CRL_sort(draft) == 1, X509_CRL_sign(draft, signer.handle, signer.digest(EVP_sha256())) > 0 else {
      throw OpenSSLError.drain()
    }
    let der = encoded { i2d_X509_CRL(draft, $0) } ?? []
    do throws(CryptoError) {
      return try der.withBytes { (raw) throws(CryptoError) in try RevocationList(der: raw) }
    } catch {
      throw OpenSSLError(description: "\(error)")
    }
  }
}
