package import Bytes
import COpenSSL

extension PKCS12 {
  package enum Strength: Sendable {
    /// AES-256-CBC and a SHA-256 MAC, both by PBKDF2 of 2048 rounds (PBES2).
    case modern
    /// 3DES for the key, RC2-40 for the certificates, a SHA-1 MAC: for devices that support nothing else.
    case legacy
  }

  /// Encodes a key, its certificate and chain as a PKCS#12 file.
  package static func encode(
    _ certified: CertifiedKey, name: String, password: SecretBytes, strength: Strength = .modern
  ) throws(OpenSSLError) -> SecretBytes {
    guard let chain = copenssl_sk_X509_new() else { throw OpenSSLError.drain() }
    defer { copenssl_sk_X509_free(chain) }
    for certificate in certified.chain { _ = copenssl_sk_X509_push(chain, certificate.handle) }

    let rounds: CInt = 2048
    let withoutMAC: CInt = -1
    let ciphers =
      switch strength {
      case .modern: (key: NID_aes_256_cbc, certificates: NID_aes_256_cbc)
      case .legacy:
        (key: NID_pbe_WithSHA1And3_Key_TripleDES_CBC, certificates: NID_pbe_WithSHA1And40BitRC2_CBC)
      }
    guard let phrase = password.terminated else {
      throw OpenSSLError(codes: [], description: "a pass phrase with a NUL byte in it")
    }
    let file = phrase.withUnsafeBytes { bytes -> OpaquePointer? in
      let text = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
      guard
        let file = PKCS12_create_ex(
          text, name, certified.key.handle, certified.certificate.handle, chain, ciphers.key, ciphers.certificates,
          rounds, withoutMAC, 0, LibraryContext.old.handle, nil)
      else { return nil }
      let digest = strength == .modern ? EVP_sha256() : EVP_sha1()
      guard PKCS12_set_mac(file, text, -1, nil, 0, rounds, digest) == 1 else {
        PKCS12_free(file)
        return nil
      }
      return file
    }
    guard let file else { throw OpenSSLError.drain() }
    defer { PKCS12_free(file) }
    guard let der = encoded({ i2d_PKCS12(file, $0) }) else { throw OpenSSLError.drain() }
    OpenSSLError.discard()
    return SecretBytes(der)
  }
}
