package import Bytes
import COpenSSL

/// The algorithms of HTTP message signatures (RFC 9421 §3.3) that sallyport has.
public enum SignatureAlgorithm: String, Sendable, Hashable, CaseIterable {
  case hmacSHA256 = "hmac-sha256"
  case ecdsaP256 = "ecdsa-p256-sha256"
  case ed25519
  case rsaPSS = "rsa-pss-sha512"
  case rsaPKCS1 = "rsa-v1_5-sha256"

  /// Whether the key that verifies also signs.
  public var isSymmetric: Bool { self == .hmacSHA256 }

  fileprivate var digest: OpaquePointer? {
    switch self {
    case .hmacSHA256, .ecdsaP256, .rsaPKCS1: EVP_sha256()
    case .rsaPSS: EVP_sha512()
    // Ed25519 has its hash inside.
    case .ed25519: nil
    }
  }
}

/// A key that signs or verifies by exactly one algorithm. No message can choose another algorithm for it, so a public
/// key is never taken for a secret of HMAC. Any thread may use it.
// @unchecked: nothing changes the EVP_PKEY after `init`, and each use has a context of its own.
public final class SignatureKey: @unchecked Sendable {
  private enum Material {
    case secret(MACKey)
    /// EVP_PKEY*
    case key(OpaquePointer)
  }

  public enum Purpose: Sendable, Hashable { case sign, verify }

  public let algorithm: SignatureAlgorithm
  /// Octets that tell this key from others and reveal nothing about a secret.
  package let fingerprint: [UInt8]
  private let material: Material

  /// The allowed lengths of a secret in octets.
  package static let secretCounts = 16...Int.max
  private static let leastRSABits: CInt = 2048
  static let coordinateCount: CInt = 32
  private static let saltCount: CInt = 64

  /// Makes a key of HMAC. Returns nil when the secret is too short.
  package init?(secret: SecretBytes) {
    guard Self.secretCounts.contains(secret.count), let key = MACKey(.hmacSHA256, secret) else { return nil }
    algorithm = .hmacSHA256
    material = .secret(key)
    var mac = key.begin()
    Array("sallyport message_signature".utf8).withUnsafeBytes { mac.add($0) }
    fingerprint = Digest.of(mac.finish())
  }

  /// Takes ownership of one reference, also when it throws.
  private init(owning handle: OpaquePointer, _ algorithm: SignatureAlgorithm) throws(CryptoError) {
    self.algorithm = algorithm
    material = .key(handle)
    fingerprint = Digest.of(encoded { i2d_PUBKEY(handle, $0) } ?? [])
    if let fault = Self.fault(of: handle, algorithm) { throw .malformed(fault) }
  }

  deinit { if case .key(let handle) = material { EVP_PKEY_free(handle) } }

  /// Says why the key isn't one of the algorithm; nil if it is.
  private static func fault(of key: OpaquePointer, _ algorithm: SignatureAlgorithm) -> String? {
    defer { OpenSSLError.discard() }
    func isOf(_ type: String) -> Bool { EVP_PKEY_is_a(key, type) == 1 }
    switch algorithm {
    case .hmacSHA256: return "a key pair, but \(algorithm.rawValue) needs a secret"
    case .ed25519: return isOf("ED25519") ? nil : "no Ed25519 key"
    case .ecdsaP256:
      var name = [CChar](repeating: 0, count: 64)
      var count = 0
      guard isOf("EC"), EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1 else { return "no EC key" }
      let curve = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      return curve == "prime256v1" ? nil : "an EC key of curve \(curve), but \(algorithm.rawValue) needs P-256"
    case .rsaPSS, .rsaPKCS1:
      guard isOf("RSA") || algorithm == .rsaPSS && isOf("RSA-PSS") else { return "no RSA key" }
      let bits = EVP_PKEY_get_bits(key)
      return bits >= leastRSABits ? nil : "an RSA key of \(bits) bits, but \(leastRSABits) are the least"
    }
  }

  // MARK: Use

  /// Returns the signature of these bytes; nil when OpenSSL can't sign, or the key can only verify.
  package func sign(_ text: [UInt8]) -> [UInt8]? {
    switch material {
    case .secret(let key):
      let code = Self.code(of: text, key)
      return code.isEmpty ? nil : code
    case .key(let key):
      defer { OpenSSLError.discard() }
      guard let context = EVP_MD_CTX_new() else { return nil }
      defer { EVP_MD_CTX_free(context) }
      var parameters: OpaquePointer?
      var count = 0
      guard EVP_DigestSignInit(context, &parameters, algorithm.digest, nil, key) == 1, prepare(parameters),
        EVP_DigestSign(context, nil, &count, text, text.count) == 1, count > 0
      else { return nil }
      var signature = [UInt8](repeating: 0, count: count)
      guard EVP_DigestSign(context, &signature, &count, text, text.count) == 1, count <= signature.count else {
        return nil
      }
      signature.removeLast(signature.count - count)
      return algorithm == .ecdsaP256 ? Self.coordinates(of: signature) : signature
    }
  }

  /// Whether the signature is this key's signature of these bytes.
  package func verify(_ signature: [UInt8], _ text: [UInt8]) -> Bool {
    switch material {
    case .secret(let key):
      let code = Self.code(of: text, key)
      return !code.isEmpty && ConstantTime.equal(code, signature)
    case .key(let key):
      defer { OpenSSLError.discard() }
      guard let context = EVP_MD_CTX_new(),
        let form = algorithm == .ecdsaP256 ? Self.sequence(of: signature) : signature
      else { return false }
      defer { EVP_MD_CTX_free(context) }
      var parameters: OpaquePointer?
      return EVP_DigestVerifyInit(context, &parameters, algorithm.digest, nil, key) == 1 && prepare(parameters)
        && EVP_DigestVerify(context, form, form.count, text, text.count) == 1
    }
  }

  private static func code(of text: [UInt8], _ key: MACKey) -> [UInt8] {
    var mac = key.begin()
    text.withUnsafeBytes { mac.add($0) }
    return mac.finish()
  }

  private func prepare(_ parameters: OpaquePointer?) -> Bool {
    switch algorithm {
    case .hmacSHA256, .ecdsaP256, .ed25519: true
    case .rsaPSS:
      EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING) > 0
        && EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, Self.saltCount) > 0
    case .rsaPKCS1: EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PADDING) > 0
    }
  }

  // MARK: ECDSA: two numbers of 32 octets (RFC 9421 §3.3.4), where OpenSSL has a DER sequence

  /// `count`: the octets of a number of the curve.
  static func coordinates(of sequence: [UInt8], count: CInt = coordinateCount) -> [UInt8]? {
    let pair = sequence.withUnsafeBytes { decoded($0, free: ECDSA_SIG_free, { d2i_ECDSA_SIG(nil, $0, $1) }) }
    guard let pair else { return nil }
    defer { ECDSA_SIG_free(pair) }
    var r = [UInt8](repeating: 0, count: Int(count)), s = r
    guard BN_bn2binpad(ECDSA_SIG_get0_r(pair), &r, count) == count,
      BN_bn2binpad(ECDSA_SIG_get0_s(pair), &s, count) == count
    else { return nil }
    return r + s
  }

  static func sequence(of coordinates: [UInt8]) -> [UInt8]? {
    guard coordinates.count == 2 * Int(coordinateCount), let pair = ECDSA_SIG_new() else { return nil }
    defer { ECDSA_SIG_free(pair) }
    let (r, s) = coordinates.withUnsafeBufferPointer { bytes in
      (
        BN_bin2bn(bytes.baseAddress, coordinateCount, nil),
        BN_bin2bn(bytes.baseAddress.map { $0 + Int(coordinateCount) }, coordinateCount, nil)
      )
    }
    guard let r, let s, ECDSA_SIG_set0(pair, r, s) == 1 else {
      BN_free(r)
      BN_free(s)
      return nil
    }
    return encoded { i2d_ECDSA_SIG(pair, $0) }
  }
}

// MARK: Files

extension SignatureKey {
  /// Loads a secret, a private key to sign, or a public key to verify. Blocks.
  package static func load(
    _ reference: MaterialReference, _ algorithm: SignatureAlgorithm, to purpose: Purpose
  ) throws(MaterialError) -> SignatureKey {
    if algorithm.isSymmetric {
      let secret = try SymmetricKeyFile.load(reference, expecting: .macKey, lengths: secretCounts)
      if let key = SignatureKey(secret: secret) { return key }
      throw MaterialError(reference, "this OpenSSL has not got \(algorithm.rawValue)")
    }
    let kind: MaterialKind = purpose == .sign ? .signingKey : .verifyingKey
    let contents = try reference.contents(expecting: kind)
    if purpose == .verify, contents.holdsPrivateKey {
      throw MaterialError(
        reference, "a private key, but only its public key is needed to verify",
        hint: "openssl pkey -in FILE -pubout; and keep the private key where requests are signed")
    }
    return try reference.parsing(kind) { () throws(CryptoError) in
      switch purpose {
      case .sign: return try SignatureKey(signing: try contents.privateKey(), algorithm)
      case .verify:
        let handle = try contents.publicKey().subjectPublicKeyInfo.withUnsafeBytes {
          decoded($0, free: EVP_PKEY_free, { d2i_PUBKEY(nil, $0, $1) })
        }
        guard let handle else { throw .malformed("not a public key (\(OpenSSLError.drain()))") }
        return try SignatureKey(owning: handle, algorithm)
      }
    }
  }
}

extension SignatureKey {
  /// A private key that signs by this algorithm.
  package convenience init(signing key: PrivateKey, _ algorithm: SignatureAlgorithm) throws(CryptoError) {
    EVP_PKEY_up_ref(key.handle)
    try self.init(owning: key.handle, algorithm)
  }
}

extension PrivateKey {
  /// Loads the private key of a file, to sign messages by what `make` makes of it. Blocks.
  package static func load<Signer>(
    signing reference: MaterialReference, _ make: (PrivateKey) throws(CryptoError) -> Signer
  ) throws(MaterialError) -> Signer {
    let contents = try reference.contents(expecting: .signingKey)
    return try reference.parsing(.signingKey) { () throws(CryptoError) in try make(try contents.privateKey()) }
  }
}

extension MaterialContents {
  fileprivate func privateKey() throws(CryptoError) -> PrivateKey {
    guard let key = try privateKey(passwords: []) else {
      throw .absent("holds no private key but \(contentNames)")
    }
    return key
  }

  fileprivate var holdsPrivateKey: Bool {
    switch self {
    case .pem(let blocks): blocks.contains(where: \.holdsPrivateKey)
    case .privateKey, .encryptedPrivateKey, .pkcs12: true
    case .certificate, .publicKey: false
    }
  }

  /// The only public key.
  fileprivate func publicKey() throws(CryptoError) -> PublicKey {
    switch self {
    case .publicKey(let key): return key
    case .pem(let blocks):
      let keys = blocks.filter(\.holdsPublicKey)
      guard let block = keys.first else { throw .absent("holds no public key but \(contentNames)") }
      guard keys.count == 1 else { throw .malformed("holds \(keys.count) public keys") }
      return try block.contents.withUnsafeBytes { (der) throws(CryptoError) in try PublicKey(der: der) }
    case .certificate, .privateKey, .encryptedPrivateKey, .pkcs12:
      throw .absent("holds no public key but \(contentNames)")
    }
  }
}
