import COpenSSL

/// A public key of a JSON Web Key Set (RFC 7517, 7518 and 8037), which verifies signatures of JOSE.
///
/// The key decides which algorithms it verifies, and a message can only name one of them: so no public key is ever taken for
/// a secret, and no signature for one of another kind. Any thread may use it.
// @unchecked: nothing changes the EVP_PKEY after `init`, and each use has a context of its own.
package final class WebVerifier: @unchecked Sendable {
  /// A value of the header `alg`. There is no `none`, and no algorithm whose key both signs and verifies.
  package enum Algorithm: String, Sendable, Hashable, CaseIterable {
    case edDSA = "EdDSA"
    case es256 = "ES256"
    case rs256 = "RS256"
    case ps256 = "PS256"
  }

  /// The numbers of a key, big-endian.
  package enum Numbers: Sendable, Hashable {
    /// 32 octets.
    case ed25519([UInt8])
    /// 32 octets each.
    case p256(x: [UInt8], y: [UInt8])
    case rsa(modulus: [UInt8], exponent: [UInt8])
  }

  package let algorithms: Set<Algorithm>
  /// EVP_PKEY*
  private let handle: OpaquePointer

  private static let rsaBits = 2048...8192

  /// Throws for numbers that are no key, and for an RSA key that is too short, or so long that it costs too much.
  package init(_ numbers: Numbers) throws(CryptoError) {
    let der = try Self.subjectPublicKeyInfo(numbers)
    let decodedKey = der.withUnsafeBytes { decoded($0, free: EVP_PKEY_free, { d2i_PUBKEY(nil, $0, $1) }) }
    guard let decodedKey else { throw .malformed("no key: \(OpenSSLError.drain())") }
    OpenSSLError.discard()
    handle = decodedKey
    switch numbers {
    case .ed25519: algorithms = [.edDSA]
    case .p256: algorithms = [.es256]
    case .rsa:
      algorithms = [.rs256, .ps256]
      let bits = Int(EVP_PKEY_get_bits(handle))
      guard Self.rsaBits.contains(bits) else {
        throw .malformed(
          "an RSA key of \(bits) bits, and those of \(Self.rsaBits.lowerBound) to \(Self.rsaBits.upperBound) count")
      }
    }
  }

  deinit { EVP_PKEY_free(handle) }

  /// Whether the signature is this key's signature of these bytes by the algorithm. False for an algorithm of other keys.
  package func verify(_ signature: [UInt8], _ text: [UInt8], by algorithm: Algorithm) -> Bool {
    defer { OpenSSLError.discard() }
    guard algorithms.contains(algorithm), let context = EVP_MD_CTX_new(),
      let form = algorithm == .es256 ? SignatureKey.sequence(of: signature) : signature
    else { return false }
    defer { EVP_MD_CTX_free(context) }
    var parameters: OpaquePointer?
    // Ed25519 has its hash inside.
    let digest = algorithm == .edDSA ? nil : EVP_sha256()
    return EVP_DigestVerifyInit(context, &parameters, digest, nil, handle) == 1
      && Self.prepare(parameters, algorithm)
      && EVP_DigestVerify(context, form, form.count, text, text.count) == 1
  }

  private static func prepare(_ parameters: OpaquePointer?, _ algorithm: Algorithm) -> Bool {
    switch algorithm {
    case .edDSA, .es256: true
    case .rs256: EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PADDING) > 0
    case .ps256:
      // RFC 7518 §3.5: the salt is as long as the hash.
      EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING) > 0
        && EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, 32) > 0
    }
  }

  // MARK: DER (RFC 5280 §4.1.2.7, RFC 5480, 8017 and 8410)

  private static func subjectPublicKeyInfo(_ numbers: Numbers) throws(CryptoError) -> [UInt8] {
    switch numbers {
    case .ed25519(let x):
      guard x.count == 32 else { throw .malformed("x of \(x.count) octets, and Ed25519 has 32") }
      return element(0x30, element(0x30, [0x06, 0x03, 0x2B, 0x65, 0x70]) + element(0x03, [0] + x))
    case .p256(let x, let y):
      guard x.count == 32, y.count == 32 else { throw .malformed("x or y has not the 32 octets of P-256") }
      let algorithm: [UInt8] = [
        0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01,
        0x07,
      ]
      return element(0x30, element(0x30, algorithm) + element(0x03, [0, 4] + x + y))
    case .rsa(let modulus, let exponent):
      // An exponent of 1 would make every text a signature of itself.
      guard modulus.count <= rsaBits.upperBound / 8 + 1, let odd = modulus.last, odd & 1 == 1, exponent.count <= 4,
        let last = exponent.last, last & 1 == 1, exponent.reduce(0, { $0 << 8 | UInt64($1) }) >= 65_537
      else { throw .malformed("an RSA key of an even number, or of an exponent below 65537 or above 32 bits") }
      let algorithm: [UInt8] = [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00]
      return element(
        0x30,
        element(0x30, algorithm) + element(0x03, [0] + element(0x30, integer(modulus) + integer(exponent))))
    }
  }

  private static func integer(_ number: [UInt8]) -> [UInt8] {
    let digits = Array(number.drop { $0 == 0 })
    return element(0x02, (digits.first.map { $0 >= 0x80 } ?? true) ? [0] + digits : digits)
  }

  /// `contents`: less than 65536 octets, since the numbers are bounded.
  private static func element(_ tag: UInt8, _ contents: [UInt8]) -> [UInt8] {
    let (high, low) = (UInt8(truncatingIfNeeded: contents.count >> 8), UInt8(truncatingIfNeeded: contents.count))
    let length: [UInt8] = contents.count < 0x80 ? [low] : high == 0 ? [0x81, low] : [0x82, high, low]
    return [tag] + length + contents
  }
}
