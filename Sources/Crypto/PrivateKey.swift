package import Bytes
import COpenSSL

/// A private key. It is never printed; `pem` is only for files that sallyport writes.
// @unchecked: nothing changes the EVP_PKEY through the handle after `init`, and OpenSSL 3 locks what it caches inside.
public final class PrivateKey: @unchecked Sendable {
  /// EVP_PKEY*, borrowed. A caller that keeps it longer than this object takes its own reference.
  package let handle: OpaquePointer

  /// Takes ownership of one reference.
  init(owning handle: OpaquePointer) { self.handle = handle }

  deinit { EVP_PKEY_free(handle) }

  package enum Kind: Sendable, Hashable {
    case p256, p384, p521, ed25519
    /// As strong as RSA with 2048 bits. Only for stand-ins of such keys: making one takes no time.
    case p224
    /// The modulus in bits, 2048 or more.
    case rsa(bits: UInt32)
    case postQuantum(PostQuantumSignature)
  }

  package static func generate(_ kind: Kind = .p256) throws(OpenSSLError) -> PrivateKey {
    let key =
      switch kind {
      case .p224: copenssl_ec_generate("P-224")
      case .p256: copenssl_ec_generate("P-256")
      case .p384: copenssl_ec_generate("P-384")
      case .p521: copenssl_ec_generate("P-521")
      case .ed25519: copenssl_generate("ED25519")
      case .rsa(let bits): copenssl_rsa_generate(bits)
      case .postQuantum(let algorithm): copenssl_generate(algorithm.rawValue)
      }
    guard let key else {
      let error = OpenSSLError.drain()
      if case .postQuantum(let algorithm) = kind, !algorithm.isAvailable {
        throw OpenSSLError(codes: error.codes, description: algorithm.absence)
      }
      throw error
    }
    return PrivateKey(owning: key)
  }

  /// Parses one unencrypted DER key: PKCS#8, PKCS#1 or SEC 1.
  package convenience init(der: UnsafeRawBufferPointer) throws(CryptoError) {
    guard let key = decoded(der, free: EVP_PKEY_free, { d2i_AutoPrivateKey(nil, $0, $1) }) else {
      let error = OpenSSLError.drain()
      if let algorithm = PostQuantumSignature(ofPrivateKey: der), !algorithm.isAvailable { throw .missing(algorithm) }
      throw .malformed("not a DER private key (\(error))")
    }
    OpenSSLError.discard()
    self.init(owning: key)
  }

  /// Parses the first private key of a PEM text, in any PEM encoding. `passwords` are tried in order.
  package convenience init(pem text: String, passwords: [SecretBytes] = []) throws(CryptoError) {
    let key = try Array(text.utf8).withBytes { (raw) throws(CryptoError) in
      guard let block = try PEMBlock.all(in: raw).first(where: \.holdsPrivateKey) else {
        throw CryptoError.absent("no private key in it")
      }
      return try EncryptedKey.privateKey(in: block, passwords: passwords)
    }
    EVP_PKEY_up_ref(key.handle)
    self.init(owning: key.handle)
  }

  /// Whether a provider of OpenSSL has the key; a token's key belongs to an engine.
  package var isOfProvider: Bool { EVP_PKEY_get0_provider(handle) != nil }

  /// The hash function of a signature of this key, if it may be chosen; nil for a key whose signature has its own: Ed25519,
  /// ML-DSA, SLH-DSA. OpenSSL refuses a choice there.
  func digest(_ chosen: OpaquePointer?) -> OpaquePointer? {
    defer { OpenSSLError.discard() }
    var name = [CChar](repeating: 0, count: 64)
    let isFixed = 2
    guard EVP_PKEY_get_default_digest_name(handle, &name, name.count) == isFixed else { return chosen }
    let text = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return text.isEmpty || text == "UNDEF" ? nil : chosen
  }

  /// Whether the certificate belongs to this key.
  package func matches(_ certificate: Certificate) -> Bool {
    let matches = X509_check_private_key(certificate.handle, handle) == 1
    OpenSSLError.discard()
    return matches
  }

  package var publicKey: PublicKey { PublicKey(ofSubjectPublicKeyInfo: encoded { i2d_PUBKEY(handle, $0) } ?? []) }
  package var spkiSHA256: [UInt8] { publicKey.sha256 }

  /// Unencrypted PKCS#8: anybody who reads it has the key.
  package var pem: SecretBytes {
    get throws(OpenSSLError) {
      let bio = try MemoryBIO()
      guard PEM_write_bio_PKCS8PrivateKey(bio.handle, handle, nil, nil, 0, nil, nil) == 1 else {
        throw OpenSSLError.drain()
      }
      return SecretBytes(bio.bytes)
    }
  }

  /// Returns PKCS#8 encrypted with `password`: AES-256-CBC, its key derived by PBKDF2.
  package func pem(password: SecretBytes) throws(OpenSSLError) -> SecretBytes {
    let bio = try MemoryBIO()
    let written = password.withUnsafeBytes { phrase in
      PEM_write_bio_PKCS8PrivateKey(
        bio.handle, handle, EVP_aes_256_cbc(), phrase.baseAddress?.assumingMemoryBound(to: CChar.self),
        CInt(clamping: phrase.count), nil, nil)
    }
    guard written == 1 else { throw OpenSSLError.drain() }
    return SecretBytes(bio.bytes)
  }
}

extension PrivateKey: CustomStringConvertible {
  public var description: String { "(private key)" }
}
