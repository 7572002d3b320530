import COpenSSL

/// A SubjectPublicKeyInfo, which a public-key pin names.
public struct PublicKey: Sendable, Hashable {
  /// DER (RFC 5280 §4.1.2.7).
  package let subjectPublicKeyInfo: [UInt8]

  /// Takes the encoding of an already parsed key.
  init(ofSubjectPublicKeyInfo der: [UInt8]) { subjectPublicKeyInfo = der }

  /// Parses exactly one DER SubjectPublicKeyInfo with a key that OpenSSL understands.
  package init(der: UnsafeRawBufferPointer) throws(CryptoError) {
    guard let key = decoded(der, free: EVP_PKEY_free, { d2i_PUBKEY(nil, $0, $1) }) else {
      let error = OpenSSLError.drain()
      if let algorithm = PostQuantumSignature(ofPublicKey: der), !algorithm.isAvailable { throw .missing(algorithm) }
      throw .malformed("not a DER public key (\(error))")
    }
    defer { EVP_PKEY_free(key) }
    subjectPublicKeyInfo = Array(der)
  }

  /// The SHA-256, 32 octets; empty without a key, which equals no pin.
  package var sha256: [UInt8] { subjectPublicKeyInfo.isEmpty ? [] : Digest.of(subjectPublicKeyInfo) }
}
