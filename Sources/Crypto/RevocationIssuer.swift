import COpenSSL

extension RevocationList {
  /// Whether the authorities include a CA with the CRL's issuer name, but no CA of that name signed the CRL. Then
  /// another CA made the CRL, and verification would refuse every certificate of the trusted one. False when no
  /// authority has that name.
  package func isDisowned(by authorities: [Certificate]) -> Bool {
    let issuers = authorities.filter {
      X509_NAME_cmp(X509_get_subject_name($0.handle), X509_CRL_get_issuer(handle)) == 0
    }
    return !issuers.isEmpty && !issuers.contains { isSigned(by: $0) }
  }

  /// Whether this certificate's key signed the CRL.
  package func isSigned(by issuer: Certificate) -> Bool {
    defer { OpenSSLError.discard() }
    guard let key = X509_get0_pubkey(issuer.handle) else { return false }
    return X509_CRL_verify(handle, key) == 1
  }
}

extension TrustAnchors {
  /// Returns the anchors with the name of a CRL's issuer. Looks the system's up in files as verification does. Blocks.
  package func named(asIssuerOf list: RevocationList) -> [Certificate] {
    defer { OpenSSLError.discard() }
    guard let context = X509_STORE_CTX_new() else { return [] }
    defer { X509_STORE_CTX_free(context) }
    guard X509_STORE_CTX_init(context, handle, nil, nil) == 1,
      let found = X509_STORE_CTX_get1_certs(context, X509_CRL_get_issuer(list.handle))
    else { return [] }
    defer { copenssl_sk_X509_pop_free(found) }
    return (0..<copenssl_sk_X509_num(found)).compactMap { index in
      copenssl_sk_X509_value(found, index).map { Certificate(retaining: $0) }
    }
  }
}
