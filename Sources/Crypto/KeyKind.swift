import COpenSSL

/// The kind and size of a public key: what `ca inspect` tells of it, and whether the authority signs it.
package enum KeyKind: Sendable, Hashable, CustomStringConvertible {
  case rsa(bits: Int)
  case p256, p384, p521, ed25519
  case postQuantum(PostQuantumSignature)
  /// Everything else, by OpenSSL's name, and its strength in bits of security.
  case other(String, security: Int)
  /// OpenSSL can't read the key. The algorithm is known if a newer OpenSSL could.
  case unreadable(PostQuantumSignature?)

  /// `key`: EVP_PKEY*, borrowed; nil for a key that can't be read. `encoding`: X509_PUBKEY*, borrowed.
  init(_ key: OpaquePointer?, encoding: OpaquePointer? = nil) {
    guard let key else {
      self = .unreadable(PostQuantumSignature(ofPublicKey: encoding))
      return
    }
    defer { OpenSSLError.discard() }
    let security = Int(EVP_PKEY_get_security_bits(key))
    switch EVP_PKEY_get_base_id(key) {
    case NID_rsaEncryption: self = .rsa(bits: Int(EVP_PKEY_get_bits(key)))
    case NID_ED25519: self = .ed25519
    case NID_X9_62_id_ecPublicKey:
      let curve = Self.curve(of: key)
      switch curve {
      case "prime256v1": self = .p256
      case "secp384r1": self = .p384
      case "secp521r1": self = .p521
      default: self = .other("ECDSA \(curve ?? "with a curve of its own")", security: security)
      }
    default:
      let name = EVP_PKEY_get0_type_name(key).map { String(cString: $0) } ?? "unknown kind"
      self = PostQuantumSignature(rawValue: name).map { .postQuantum($0) } ?? .other(name, security: security)
    }
  }

  private static func curve(of key: OpaquePointer) -> String? {
    var name = [CChar](repeating: 0, count: 80)
    var count = 0
    guard EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1 else { return nil }
    return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// The keys that the authority signs: RSA of 2048 to 8192 bits, ECDSA P-256, P-384 and P-521, Ed25519, ML-DSA. A larger
  /// RSA key costs each server more work at each handshake than a client should be able to demand. TLS has no signatures
  /// of SLH-DSA.
  package var isIssuable: Bool {
    switch self {
    case .rsa(let bits): (2048...8192).contains(bits)
    case .p256, .p384, .p521, .ed25519: true
    case .postQuantum(let algorithm): algorithm.isOfTLS
    case .other, .unreadable: false
    }
  }

  package static let issuable =
    "RSA of 2048 to 8192 bits, ECDSA P-256, P-384 or P-521, Ed25519, or ML-DSA (OpenSSL 3.5 and later)"

  /// The kind of a new key in place of this one: the same where `ca` makes such keys.
  package var successor: PrivateKey.Kind {
    switch self {
    case .rsa(let bits): .rsa(bits: UInt32(clamping: min(max(bits, 2048), 8192)))
    case .postQuantum(let algorithm): .postQuantum(algorithm)
    case .p256, .p384, .p521, .ed25519, .other, .unreadable: .p256
    }
  }

  package var isReadable: Bool { if case .unreadable = self { false } else { true } }

  /// Whether attackers can or soon could compute the private key: less than 112 bits of security, as RSA below 2048.
  package var isWeak: Bool {
    switch self {
    case .rsa(let bits): bits < 2048
    case .p256, .p384, .p521, .ed25519, .postQuantum: false
    case .other(_, let security): security < 112
    case .unreadable: false
    }
  }

  package var description: String {
    switch self {
    case .rsa(let bits): "RSA, \(bits) bits"
    case .p256: "ECDSA P-256"
    case .p384: "ECDSA P-384"
    case .p521: "ECDSA P-521"
    case .ed25519: "Ed25519"
    case .other(let name, let security): "\(name), \(security) bits of security"
    case .postQuantum(let algorithm): algorithm.rawValue
    case .unreadable(let algorithm): algorithm?.rawValue ?? "a key that OpenSSL can't read"
    }
  }
}

extension Certificate {
  package var keyKind: KeyKind {
    defer { OpenSSLError.discard() }
    return KeyKind(X509_get0_pubkey(handle), encoding: X509_get_X509_PUBKEY(handle))
  }
}

extension PrivateKey {
  package var kind: KeyKind { KeyKind(handle) }
}

extension PublicKey {
  package var kind: KeyKind {
    let key = subjectPublicKeyInfo.withUnsafeBytes { decoded($0, free: EVP_PKEY_free, { d2i_PUBKEY(nil, $0, $1) }) }
    defer {
      EVP_PKEY_free(key)
      OpenSSLError.discard()
    }
    guard key == nil else { return KeyKind(key) }
    return .unreadable(subjectPublicKeyInfo.withUnsafeBytes { PostQuantumSignature(ofPublicKey: $0) })
  }

  /// Whether the key's numbers can be those of a real key (SP 800-56A and B), for example an RSA exponent above 1.
  package var isSound: Bool {
    let key = subjectPublicKeyInfo.withUnsafeBytes { decoded($0, free: EVP_PKEY_free, { d2i_PUBKEY(nil, $0, $1) }) }
    defer {
      EVP_PKEY_free(key)
      OpenSSLError.discard()
    }
    guard let key, let context = EVP_PKEY_CTX_new(key, nil) else { return false }
    defer { EVP_PKEY_CTX_free(context) }
    return EVP_PKEY_public_check(context) == 1
  }
}
