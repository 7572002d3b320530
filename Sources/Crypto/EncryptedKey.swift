import Bytes
import COpenSSL

/// Reads private keys from files: plain, encrypted as PKCS#8, or encrypted in PEM's traditional way.
enum EncryptedKey {
  static func privateKey(in block: PEMBlock, passwords: [SecretBytes]) throws(CryptoError) -> PrivateKey {
    if block.header.contains("ENCRYPTED") { return try traditional(block, passwords) }
    return try block.contents.withUnsafeBytes { (der) throws(CryptoError) in
      block.label == "ENCRYPTED PRIVATE KEY"
        ? try privateKey(encryptedDER: der, passwords: passwords) : try PrivateKey(der: der)
    }
  }

  /// Decrypts PKCS#8's EncryptedPrivateKeyInfo. A separate library context provides the old ciphers.
  static func privateKey(
    encryptedDER der: UnsafeRawBufferPointer, passwords: [SecretBytes]
  ) throws(CryptoError) -> PrivateKey {
    guard let sealed = decoded(der, free: X509_SIG_free, { d2i_X509_SIG(nil, $0, $1) }) else {
      throw .malformed("not an encrypted private key (\(OpenSSLError.drain()))")
    }
    defer { X509_SIG_free(sealed) }
    guard !passwords.isEmpty else { throw .passwordRequired }
    var unsupported: OpenSSLError?
    for password in passwords {
      let plain = password.withUnsafeBytes { bytes in
        PKCS8_decrypt_ex(
          sealed, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), CInt(clamping: bytes.count),
          LibraryContext.old.handle, nil)
      }
      if let plain {
        defer { PKCS8_PRIV_KEY_INFO_free(plain) }
        if let key = EVP_PKCS82PKEY(plain) {
          OpenSSLError.discard()
          return PrivateKey(owning: key)
        }
        if let algorithm = PostQuantumSignature(ofPrivateKey: plain), !algorithm.isAvailable {
          OpenSSLError.discard()
          throw .missing(algorithm)
        }
      }
      let error = OpenSSLError.drain()
      if error.isUnsupported { unsupported = error }
    }
    if let unsupported { throw .unsupported(unsupported.description) }
    throw .wrongPassword
  }

  /// Decrypts RFC 1421's `Proc-Type: 4,ENCRYPTED`, as `openssl rsa -aes128` writes it.
  private static func traditional(_ block: PEMBlock, _ passwords: [SecretBytes]) throws(CryptoError) -> PrivateKey {
    guard !passwords.isEmpty else { throw .passwordRequired }
    var cipher = EVP_CIPHER_INFO()
    var header = Array(block.header.utf8CString)
    guard PEM_get_EVP_CIPHER_INFO(&header, &cipher) == 1 else {
      let error = OpenSSLError.drain()
      throw .malformed("a private key with a damaged encryption header (\(error))")
    }
    for password in passwords {
      let plain = SecretBytes(capacity: block.contents.count) { room in
        block.contents.withUnsafeBytes { room.copyMemory(from: $0) }
        var count = room.count
        let opened = password.withUnsafeBytes { bytes in
          var phrase = bytes
          return PEM_do_header(
            &cipher, room.baseAddress?.assumingMemoryBound(to: UInt8.self), &count, copyPassword, &phrase)
        }
        return opened == 1 ? count : 0
      }
      if let key = try? plain.withUnsafeBytes({ (der) throws(CryptoError) in try PrivateKey(der: der) }) {
        OpenSSLError.discard()
        return key
      }
    }
    OpenSSLError.discard()
    throw .wrongPassword
  }
}

/// OpenSSL's pem_password_cb. `context` points to the pass phrase's bytes. Returns -1 for a pass phrase that doesn't
/// fit.
func copyPassword(
  _ room: UnsafeMutablePointer<CChar>?, _ size: CInt, _ writing: CInt, _ context: UnsafeMutableRawPointer?
) -> CInt {
  guard let room, let phrase = context?.assumingMemoryBound(to: UnsafeRawBufferPointer.self).pointee,
    phrase.count <= size
  else { return -1 }
  UnsafeMutableRawBufferPointer(start: room, count: Int(size)).copyMemory(from: phrase)
  return CInt(phrase.count)
}
