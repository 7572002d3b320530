import COpenSSL

/// What a certificate's extensions say about its use (RFC 5280 §4.2.1).
package struct CertificateUsage: Sendable, Hashable {
  /// basicConstraints; nil without the extension.
  package let isAuthority: Bool?
  /// How many CAs may follow below this one; nil for any number.
  package let pathLength: Int?
  /// keyUsage, by the names of RFC 5280; nil without the extension, which allows all.
  package let keyUsages: [String]?
  /// extendedKeyUsage, by name or object identifier; nil without the extension, which allows all.
  package let purposes: [String]?
  /// OpenSSL refuses to use an extension of this certificate.
  package let isMalformed: Bool

  /// Whether it may sign certificates: a CA, whose keyUsage, if there is one, has keyCertSign.
  package var maySignCertificates: Bool {
    isAuthority == true && !isMalformed && keyUsages.map { $0.contains("keyCertSign") } != false
  }
}

extension Certificate {
  package var usage: CertificateUsage {
    defer { OpenSSLError.discard() }
    let flags = X509_get_extension_flags(handle)
    let length = X509_get_pathlen(handle)
    return CertificateUsage(
      isAuthority: flags & UInt32(EXFLAG_BCONS) != 0 ? flags & UInt32(EXFLAG_CA) != 0 : nil,
      pathLength: length >= 0 ? Int(length) : nil,
      keyUsages: flags & UInt32(EXFLAG_KUSAGE) != 0 ? Self.keyUsages(X509_get_key_usage(handle)) : nil,
      purposes: purposes, isMalformed: flags & UInt32(EXFLAG_INVALID) != 0)
  }

  private static func keyUsages(_ bits: UInt32) -> [String] {
    let names: [(CInt, String)] = [
      (KU_DIGITAL_SIGNATURE, "digitalSignature"), (KU_NON_REPUDIATION, "nonRepudiation"),
      (KU_KEY_ENCIPHERMENT, "keyEncipherment"), (KU_DATA_ENCIPHERMENT, "dataEncipherment"),
      (KU_KEY_AGREEMENT, "keyAgreement"), (KU_KEY_CERT_SIGN, "keyCertSign"), (KU_CRL_SIGN, "cRLSign"),
      (KU_ENCIPHER_ONLY, "encipherOnly"), (KU_DECIPHER_ONLY, "decipherOnly"),
    ]
    return names.filter { bits & UInt32(bitPattern: $0.0) != 0 }.map(\.1)
  }

  private var purposes: [String]? {
    guard let value = X509_get_ext_d2i(handle, NID_ext_key_usage, nil, nil) else { return nil }
    let usages = OpaquePointer(value)
    defer { EXTENDED_KEY_USAGE_free(usages) }
    return (0..<copenssl_sk_ASN1_OBJECT_num(usages)).compactMap { index in
      copenssl_sk_ASN1_OBJECT_value(usages, index).map(Self.name)
    }
  }

  private static func name(of object: OpaquePointer) -> String {
    let known = OBJ_obj2nid(object)
    if known != NID_undef, let name = OBJ_nid2sn(known) { return String(cString: name) }
    var text = [CChar](repeating: 0, count: 80)
    _ = OBJ_obj2txt(&text, CInt(text.count), object, 1)
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// The addresses of OCSP responders (authorityInfoAccess).
  package var responderAddresses: [String] {
    guard let stack = X509_get1_ocsp(handle) else {
      OpenSSLError.discard()
      return []
    }
    defer { X509_email_free(stack) }
    return (0..<copenssl_sk_STRING_num(stack)).compactMap { index in
      copenssl_sk_STRING_value(stack, index).map { String(cString: $0) }
    }
  }

  /// The addresses of revocation lists (cRLDistributionPoints).
  package var listAddresses: [String] {
    guard let value = X509_get_ext_d2i(handle, NID_crl_distribution_points, nil, nil) else {
      OpenSSLError.discard()
      return []
    }
    let points = OpaquePointer(value)
    defer { CRL_DIST_POINTS_free(points) }
    return (0..<copenssl_sk_DIST_POINT_num(points)).flatMap { index in
      SubjectAlternativeName.all(of: copenssl_dist_point_names(points, index)).names.map(\.description)
    }
  }
}

extension Certificate {
  /// Whether extendedKeyUsage lets the certificate be a client's in TLS (clientAuth, RFC 5280 §4.2.1.12): it names
  /// clientAuth, or is absent. anyExtendedKeyUsage alone is not enough, because OpenSSL refuses that.
  public var allowsClients: Bool {
    X509_get_extension_flags(handle) & UInt32(EXFLAG_XKUSAGE) == 0
      || X509_get_extended_key_usage(handle) & UInt32(XKU_SSL_CLIENT) != 0
  }

  /// Whether extendedKeyUsage names clientAuth; false without that extension.
  package var namesClients: Bool {
    X509_get_extension_flags(handle) & UInt32(EXFLAG_XKUSAGE) != 0 && allowsClients
  }

  /// Whether the certificate may issue others: basicConstraints says so, or it is a self-signed one of version 1.
  package var mayIssue: Bool { X509_check_ca(handle) > 0 }

  /// Whether OpenSSL ends a chain at it, as at a root. The signature is not checked: it costs as much as a handshake's.
  package var endsChain: Bool { X509_self_signed(handle, 0) == 1 }

  /// Whether the certificate's own key signed it. The signature is checked.
  package var isSelfSigned: Bool {
    defer { OpenSSLError.discard() }
    return X509_self_signed(handle, 1) == 1
  }
}
