import Bytes
import COpenSSL

/// Names the signature schemes of a handshake (RFC 8446 §4.2.3) for variables.
///
/// nginx has these names from OpenSSL 3.5. Before that, OpenSSL tells only the kind of key and the hash function.
enum SignatureScheme {
  /// Empty if this side has signed nothing.
  static func own(_ ssl: OpaquePointer) -> String {
    var type: Int32 = 0
    var hash: Int32 = 0
    guard SSL_get_session(ssl) != nil, SSL_get_signature_type_nid(ssl, &type) == 1,
      copenssl_get_signature_nid(ssl, &hash) == 1
    else { return "" }
    return name(type: type, hash: hash, SSL_get_certificate(ssl))
  }

  /// Empty if the peer has signed nothing.
  static func peer(_ ssl: OpaquePointer) -> String {
    var type: Int32 = 0
    var hash: Int32 = 0
    guard SSL_get_session(ssl) != nil, SSL_get_peer_signature_type_nid(ssl, &type) == 1,
      copenssl_get_peer_signature_nid(ssl, &hash) == 1
    else { return "" }
    return name(type: type, hash: hash, copenssl_get0_peer_certificate(ssl))
  }

  /// The schemes that the client named, in its order.
  static func offered(_ ssl: OpaquePointer) -> [String] {
    let count = SSL_get_sigalgs(ssl, -1, nil, nil, nil, nil, nil)
    return (0..<max(0, count)).map { index in
      var low: UInt8 = 0
      var high: UInt8 = 0
      _ = SSL_get_sigalgs(ssl, index, nil, nil, nil, &low, &high)
      return name(UInt16(high) << 8 | UInt16(low))
    }
  }

  /// The name of a scheme's number; `0x1234` for a number without a name here.
  static func name(_ scheme: UInt16) -> String {
    names[scheme] ?? "0x" + Hex.encode([UInt8(truncatingIfNeeded: scheme >> 8), UInt8(truncatingIfNeeded: scheme)])
  }

  /// `type` and `hash`: object numbers of OpenSSL. `certificate`: whose key has signed.
  private static func name(type: Int32, hash: Int32, _ certificate: OpaquePointer?) -> String {
    let digest = hash == NID_undef ? "" : OBJ_nid2sn(hash).map { String(cString: $0).lowercased() } ?? ""
    switch type {
    case EVP_PKEY_RSA: return "rsa_pkcs1_\(digest)"
    case EVP_PKEY_RSA_PSS:
      let key = certificate.flatMap { X509_get0_pubkey($0) }.map { EVP_PKEY_get_base_id($0) }
      return "rsa_pss_\(key == EVP_PKEY_RSA_PSS ? "pss" : "rsae")_\(digest)"
    case EVP_PKEY_EC: return curves[digest].map { "ecdsa_\($0)_\(digest)" } ?? "ecdsa_\(digest)"
    case EVP_PKEY_DSA: return "dsa_\(digest)"
    // ML-DSA-65 is mldsa65 in TLS.
    default:
      let name = OBJ_nid2ln(type).map { String(cString: $0).lowercased() } ?? ""
      return name.hasPrefix("ml-dsa-") ? name.filter { $0 != "-" } : name
    }
  }

  /// TLS 1.3 binds a curve to each hash function, and OpenSSL names the scheme of TLS 1.2 in the same way.
  private static let curves = ["sha256": "secp256r1", "sha384": "secp384r1", "sha512": "secp521r1"]

  /// IANA's registry "TLS SignatureScheme", and the pairs of RFC 5246 that OpenSSL still names.
  private static let names: [UInt16: String] = [
    0x0201: "rsa_pkcs1_sha1", 0x0202: "dsa_sha1", 0x0203: "ecdsa_sha1", 0x0301: "rsa_pkcs1_sha224",
    0x0302: "dsa_sha224",
    0x0303: "ecdsa_sha224", 0x0401: "rsa_pkcs1_sha256", 0x0402: "dsa_sha256", 0x0403: "ecdsa_secp256r1_sha256",
    0x0501: "rsa_pkcs1_sha384", 0x0502: "dsa_sha384", 0x0503: "ecdsa_secp384r1_sha384", 0x0601: "rsa_pkcs1_sha512",
    0x0602: "dsa_sha512", 0x0603: "ecdsa_secp521r1_sha512", 0x0804: "rsa_pss_rsae_sha256",
    0x0805: "rsa_pss_rsae_sha384",
    0x0806: "rsa_pss_rsae_sha512", 0x0807: "ed25519", 0x0808: "ed448", 0x0809: "rsa_pss_pss_sha256",
    0x080a: "rsa_pss_pss_sha384", 0x080b: "rsa_pss_pss_sha512", 0x081a: "ecdsa_brainpoolP256r1tls13_sha256",
    0x081b: "ecdsa_brainpoolP384r1tls13_sha384", 0x081c: "ecdsa_brainpoolP512r1tls13_sha512", 0x0904: "mldsa44",
    0x0905: "mldsa65", 0x0906: "mldsa87",
  ]
}
