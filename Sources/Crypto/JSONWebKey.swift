import Bytes
import COpenSSL

/// A private key that signs by JOSE: its algorithm, its public half as a JSON Web Key, and its signatures (RFC 7515, 7517
/// and 7518, RFC 8037 for Ed25519).
// The key says which algorithm it signs by, so no message can choose another.
package struct JSONWebKey: Sendable {
  /// A value of the header `alg`.
  package enum Algorithm: String, Sendable, Hashable, CaseIterable {
    case es256 = "ES256"
    case es384 = "ES384"
    case es512 = "ES512"
    case rs256 = "RS256"
    case edDSA = "EdDSA"

    /// The octets of each coordinate and of each half of a signature; nil for an algorithm without a curve of NIST's.
    fileprivate var coordinateCount: Int? {
      switch self {
      case .es256: 32
      case .es384: 48
      case .es512: 66
      case .rs256, .edDSA: nil
      }
    }

    fileprivate var digest: OpaquePointer? {
      switch self {
      case .es256, .rs256: EVP_sha256()
      case .es384: EVP_sha384()
      case .es512: EVP_sha512()
      // Ed25519 has its hash inside.
      case .edDSA: nil
      }
    }

    private var curve: String? {
      switch self {
      case .es256: "P-256"
      case .es384: "P-384"
      case .es512: "P-521"
      case .rs256, .edDSA: nil
      }
    }

    fileprivate func members(of key: OpaquePointer) -> [(name: String, value: String)]? {
      switch self {
      case .es256, .es384, .es512:
        guard let coordinateCount, let curve,
          let x = JSONWebKey.number("qx", of: key, count: coordinateCount),
          let y = JSONWebKey.number("qy", of: key, count: coordinateCount)
        else { return nil }
        return [("crv", curve), ("kty", "EC"), ("x", Base64.encodeURL(x)), ("y", Base64.encodeURL(y))]
      case .rs256:
        guard let exponent = JSONWebKey.number("e", of: key), let modulus = JSONWebKey.number("n", of: key) else {
          return nil
        }
        return [("e", Base64.encodeURL(exponent)), ("kty", "RSA"), ("n", Base64.encodeURL(modulus))]
      case .edDSA:
        var x = [UInt8](repeating: 0, count: 32)
        var count = x.count
        guard EVP_PKEY_get_raw_public_key(key, &x, &count) == 1, count == x.count else { return nil }
        return [("crv", "Ed25519"), ("kty", "OKP"), ("x", Base64.encodeURL(x))]
      }
    }
  }

  package let key: PrivateKey
  package let algorithm: Algorithm
  /// The public key as a JSON object without blanks, its members in the order of RFC 7638 §3.
  package let publicText: String

  /// Throws for a key that JOSE has no algorithm for: RSA below 2048 or above 8192 bits, a curve of its own.
  package init(_ key: PrivateKey) throws(CryptoError) {
    defer { OpenSSLError.discard() }
    switch key.kind {
    case .p256: algorithm = .es256
    case .p384: algorithm = .es384
    case .p521: algorithm = .es512
    case .ed25519: algorithm = .edDSA
    case .rsa(let bits) where (2048...8192).contains(bits): algorithm = .rs256
    case .rsa, .postQuantum, .other, .unreadable:
      throw .absent("a key of \(key.kind), but JOSE needs RSA of 2048 to 8192 bits, ECDSA P-256 to P-521 or Ed25519")
    }
    guard let members = algorithm.members(of: key.handle) else {
      throw .malformed("its public half can't be read (\(OpenSSLError.drain()))")
    }
    self.key = key
    // Base64url and names of curves have no character that JSON escapes.
    publicText = "{" + members.map { "\"\($0.name)\":\"\($0.value)\"" }.joined(separator: ",") + "}"
  }

  /// The SHA-256 of the public key, 32 octets (RFC 7638).
  package var thumbprint: [UInt8] { Digest.of(Array(publicText.utf8)) }

  /// Returns the signature as JOSE has it: for ECDSA both numbers one after the other (RFC 7518 §3.4). nil when OpenSSL
  /// can't sign.
  package func sign(_ text: [UInt8]) -> [UInt8]? {
    defer { OpenSSLError.discard() }
    guard let context = EVP_MD_CTX_new() else { return nil }
    defer { EVP_MD_CTX_free(context) }
    var count = 0
    guard EVP_DigestSignInit(context, nil, algorithm.digest, nil, key.handle) == 1,
      EVP_DigestSign(context, nil, &count, text, text.count) == 1, count > 0
    else { return nil }
    var signature = [UInt8](repeating: 0, count: count)
    guard EVP_DigestSign(context, &signature, &count, text, text.count) == 1, count <= signature.count else {
      return nil
    }
    signature.removeLast(signature.count - count)
    guard let coordinateCount = algorithm.coordinateCount else { return signature }
    return SignatureKey.coordinates(of: signature, count: CInt(clamping: coordinateCount))
  }

  /// A number of the public key, big-endian. `count`: octets to fill; nil: as few as it needs.
  private static func number(_ name: String, of key: OpaquePointer, count: Int? = nil) -> [UInt8]? {
    var number: OpaquePointer?
    guard EVP_PKEY_get_bn_param(key, name, &number) == 1, let number else { return nil }
    defer { BN_free(number) }
    let size = CInt(clamping: count ?? Int(BN_num_bits(number) + 7) / 8)
    var bytes = [UInt8](repeating: 0, count: Int(size))
    return BN_bn2binpad(number, &bytes, size) == size ? bytes : nil
  }
}

extension Certificate {
  /// The octets of authorityKeyIdentifier's keyIdentifier; nil where the certificate has none.
  package var authorityKeyIdentifier: [UInt8]? {
    defer { OpenSSLError.discard() }
    guard let octets = copenssl_authority_key(handle) else { return nil }
    return Array(UnsafeBufferPointer(start: copenssl_string_bytes(octets), count: copenssl_string_count(octets)))
  }

  /// The octets of the serial number's DER encoding, without tag and length; nil for a negative number.
  package var serialOctets: [UInt8]? {
    guard let number = X509_get0_serialNumber(handle).map({ UnsafeRawPointer($0) }),
      copenssl_integer_is_negative(number) == 0
    else { return nil }
    let octets = Array(
      UnsafeBufferPointer(start: copenssl_string_bytes(number), count: copenssl_string_count(number)))
    return octets.first.map { $0 >= 0x80 } ?? true ? [0] + octets : octets
  }
}
