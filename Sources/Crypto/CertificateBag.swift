import COpenSSL

/// A file of certificates alone: SignedData without a signer (RFC 2315 §9.1), as EST and `openssl crl2pkcs7` have it.
package enum CertificateBag {
  /// Returns the DER.
  package static func der(_ certificates: [Certificate]) throws(OpenSSLError) -> [UInt8] {
    guard let bag = copenssl_pkcs7_for_certificates() else { throw OpenSSLError.drain() }
    defer { PKCS7_free(bag) }
    for certificate in certificates {
      guard PKCS7_add_certificate(bag, certificate.handle) == 1 else { throw OpenSSLError.drain() }
    }
    guard let bytes = encoded({ i2d_PKCS7(bag, $0) }) else { throw OpenSSLError.drain() }
    return bytes
  }
}
