import COpenSSL

extension SigningRequest {
  /// Makes a request for these names (PKCS#10, RFC 2986), signed by the key. Returns DER.
  ///
  /// The subject is empty: an ACME server takes the names from the extension (RFC 8555 §7.4).
  package static func make(
    names: [CertificateBuilder.AlternativeName], key: PrivateKey
  ) throws(OpenSSLError) -> [UInt8] {
    guard let draft = X509_REQ_new() else { throw OpenSSLError.drain() }
    defer { X509_REQ_free(draft) }
    guard X509_REQ_set_version(draft, 0) == 1, X509_REQ_set_pubkey(draft, key.handle) == 1 else {
      throw OpenSSLError.drain()
    }
    try CertificateBuilder.withGeneralNames(names) { (names) throws(OpenSSLError) in
      guard copenssl_req_add_names(draft, names) == 1 else { throw OpenSSLError.drain() }
    }
    guard X509_REQ_sign(draft, key.handle, key.digest(EVP_sha256())) > 0,
      let der = encoded({ i2d_X509_REQ(draft, $0) })
    else { throw OpenSSLError.drain() }
    return der
  }
}
