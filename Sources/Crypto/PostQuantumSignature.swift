import COpenSSL

/// The signature algorithms that a quantum computer doesn't break, by OpenSSL's names: ML-DSA (FIPS 204) and SLH-DSA
/// (FIPS 205). OpenSSL has them from version 3.5 on. An older one reads certificates and files with such keys, but not the
/// keys in them.
public enum PostQuantumSignature: String, CaseIterable, Sendable {
  // The order is that of NIST's object identifiers.
  case mlDSA44 = "ML-DSA-44"
  case mlDSA65 = "ML-DSA-65"
  case mlDSA87 = "ML-DSA-87"
  case slhDSASHA2128s = "SLH-DSA-SHA2-128s"
  case slhDSASHA2128f = "SLH-DSA-SHA2-128f"
  case slhDSASHA2192s = "SLH-DSA-SHA2-192s"
  case slhDSASHA2192f = "SLH-DSA-SHA2-192f"
  case slhDSASHA2256s = "SLH-DSA-SHA2-256s"
  case slhDSASHA2256f = "SLH-DSA-SHA2-256f"
  case slhDSASHAKE128s = "SLH-DSA-SHAKE-128s"
  case slhDSASHAKE128f = "SLH-DSA-SHAKE-128f"
  case slhDSASHAKE192s = "SLH-DSA-SHAKE-192s"
  case slhDSASHAKE192f = "SLH-DSA-SHAKE-192f"
  case slhDSASHAKE256s = "SLH-DSA-SHAKE-256s"
  case slhDSASHAKE256f = "SLH-DSA-SHAKE-256f"

  /// Whether TLS has a signature scheme for it (draft-ietf-tls-mldsa). A key of the others can sign certificates,
  /// revocation lists and OCSP responses, but no handshake.
  package var isOfTLS: Bool {
    switch self {
    case .mlDSA44, .mlDSA65, .mlDSA87: true
    default: false
    }
  }

  /// Whether this OpenSSL has it.
  package var isAvailable: Bool {
    defer { OpenSSLError.discard() }
    guard let context = EVP_PKEY_CTX_new_from_name(nil, rawValue, nil) else { return false }
    EVP_PKEY_CTX_free(context)
    return true
  }

  /// `this OpenSSL (3.0.19) has no ML-DSA-65; OpenSSL 3.5 and later have it`
  package var absence: String {
    let version = OpenSSL_version(OPENSSL_VERSION_STRING).map { String(cString: $0) } ?? "of unknown version"
    return "this OpenSSL (\(version)) has no \(rawValue); OpenSSL 3.5 and later have it"
  }

  /// `algorithm`: ASN1_OBJECT*, borrowed. The older OpenSSL has no names for the identifiers, so this compares numbers.
  init?(identifiedBy algorithm: OpaquePointer?) {
    guard let algorithm else { return nil }
    var text = [CChar](repeating: 0, count: 64)
    guard OBJ_obj2txt(&text, CInt(text.count), algorithm, 1) > 0 else { return nil }
    let identifier = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    guard let found = Self.identifiers.firstIndex(of: identifier) else { return nil }
    self = Self.allCases[found]
  }

  /// Of NIST's arc sigAlgs, whose numbers 17 to 31 are those of the cases.
  private static let identifiers = allCases.indices.map { "2.16.840.1.101.3.4.3.\(17 + $0)" }
}

extension PostQuantumSignature {
  /// The algorithm of a public key. `key`: X509_PUBKEY*, borrowed.
  init?(ofPublicKey key: OpaquePointer?) {
    guard let key else { return nil }
    var algorithm: OpaquePointer?
    guard X509_PUBKEY_get0_param(&algorithm, nil, nil, nil, key) == 1 else { return nil }
    self.init(identifiedBy: algorithm)
  }

  /// The algorithm of a private key as PKCS#8; nil for anything else.
  init?(ofPrivateKey der: UnsafeRawBufferPointer) {
    defer { OpenSSLError.discard() }
    guard let key = decoded(der, free: PKCS8_PRIV_KEY_INFO_free, { d2i_PKCS8_PRIV_KEY_INFO(nil, $0, $1) }) else {
      return nil
    }
    defer { PKCS8_PRIV_KEY_INFO_free(key) }
    self.init(ofPrivateKey: key)
  }

  /// `key`: PKCS8_PRIV_KEY_INFO*, borrowed.
  init?(ofPrivateKey key: OpaquePointer) {
    var algorithm: OpaquePointer?
    guard PKCS8_pkey_get0(&algorithm, nil, nil, nil, key) == 1 else { return nil }
    self.init(identifiedBy: algorithm)
  }

  /// The algorithm of a public key as SubjectPublicKeyInfo; nil for anything else.
  init?(ofPublicKey der: UnsafeRawBufferPointer) {
    defer { OpenSSLError.discard() }
    guard let key = decoded(der, free: X509_PUBKEY_free, { d2i_X509_PUBKEY(nil, $0, $1) }) else { return nil }
    defer { X509_PUBKEY_free(key) }
    self.init(ofPublicKey: key)
  }
}
