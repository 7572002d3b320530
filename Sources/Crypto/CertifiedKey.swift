package import Bytes

/// A certificate with its chain and its private key, which one side of a handshake presents.
///
/// It can't be made from a key and a certificate that don't match.
public final class CertifiedKey: Sendable {
  /// The leaf.
  package let certificate: Certificate
  /// Intermediates in the order in which they are sent.
  package let chain: [Certificate]
  package let key: PrivateKey

  /// Returns nil when the key does not match the certificate.
  package init?(certificate: Certificate, chain: [Certificate] = [], key: PrivateKey) {
    guard key.matches(certificate) else { return nil }
    self.certificate = certificate
    self.chain = chain
    self.key = key
  }

  /// Loads the pair that `ssl_certificate` and `ssl_certificate_key` name (or their proxy_ counterparts).
  ///
  /// `key` may be nil when the certificate's file holds the key too: a PKCS#12 file, or a PEM file with both. The first
  /// certificate of a PEM file is the leaf. `passwords` are tried in order. `onlyRegular`: refuses what is no regular
  /// file. Blocks, so never call it on an event loop.
  package static func load(
    certificate: MaterialReference, key: MaterialReference?, passwords: [SecretBytes] = [], tokens: TokenRefusals,
    onlyRegular: Bool = false
  ) throws(MaterialError) -> CertifiedKey {
    let contents = try certificate.contents(expecting: .certificate, onlyRegular: onlyRegular)
    if let key, contents.isKeyAlone, let other = try? key.contents(expecting: .privateKey), other.isCertificateAlone {
      throw MaterialError(
        certificate, "holds a private key, and \(key.shown) holds a certificate: the two files are swapped",
        hint: "name the certificate where the key is named, and the key where the certificate is")
    }
    let certificates = try certificate.parsing(.certificate) { () throws(CryptoError) in
      try contents.presented(passwords: passwords)
    }
    let keyReference = key ?? certificate
    if let key, case .key(let name) = key.spelling {
      let stored = try key.parsing(.privateKey) { () throws(CryptoError) in
        try StoredKey.load(name, passwords: passwords, tokens)
      }
      return try pair(certificates, stored, keyReference, certificate)
    }
    let keyContents = try key.map { (key) throws(MaterialError) in
      try key.contents(expecting: .privateKey, onlyRegular: onlyRegular)
    }
    let privateKey = try keyReference.parsing(.privateKey) { () throws(CryptoError) in
      try (keyContents ?? contents).privateKey(passwords: passwords)
    }
    guard let privateKey else {
      throw MaterialError(
        keyReference, "holds no private key but \((keyContents ?? contents).contentNames)",
        hint: key == nil
          ? "name the key's file too (\(certificate.location == nil ? "--key FILE" : "ssl_certificate_key, proxy_ssl_certificate_key")), or give a PKCS#12"
          : "expected \(MaterialKind.privateKey.expectation)")
    }
    return try pair(certificates, privateKey, keyReference, certificate)
  }

  private static func pair(
    _ certificates: [Certificate], _ key: PrivateKey, _ keyReference: MaterialReference,
    _ certificate: MaterialReference
  ) throws(MaterialError) -> CertifiedKey {
    guard let leaf = certificates.first,
      let pair = CertifiedKey(certificate: leaf, chain: Array(certificates.dropFirst()), key: key)
    else {
      throw MaterialError(
        keyReference, "the private key does not belong to the certificate in \(certificate.shown)",
        hint: "compare `sallyport pin` of both files; the leaf must be the first certificate of its file")
    }
    return pair
  }
}

extension Certificate {
  /// Loads every certificate of a CA file: a PEM bundle, one DER certificate, or a PKCS#12 file. At least one.
  package static func loadAll(
    _ reference: MaterialReference, passwords: [SecretBytes] = []
  ) throws(MaterialError) -> [Certificate] {
    let contents = try reference.contents(expecting: .anchors)
    return try reference.parsing(.anchors) { () throws(CryptoError) in
      try contents.certificates(passwords: passwords)
    }
  }
}
