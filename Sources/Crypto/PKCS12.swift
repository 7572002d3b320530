package import Bytes
import COpenSSL

/// The content of a PKCS#12 file: a key with its certificate and chain, or certificates alone.
package struct PKCS12: Sendable {
  /// The certificate that the key belongs to; without a key the first one.
  package let leaf: Certificate
  /// The certificates from the leaf's issuer upwards, as far as they link.
  package let chain: [Certificate]
  /// The rest in file order: other entries of a Java keystore, mostly. They concern no peer of the leaf.
  package let others: [Certificate]
  package let key: PrivateKey?

  /// Every certificate, the leaf first.
  package var certificates: [Certificate] { [leaf] + chain + others }

  /// Opens a file with the first pass phrase that fits. Tries the empty one, in both its encodings, last.
  ///
  /// Supports modern (PBES2) and old (RC2-40, 3DES) files.
  package init(der: UnsafeRawBufferPointer, passwords: [SecretBytes] = []) throws(CryptoError) {
    guard let file = Self.parse(der) else { throw .malformed("not a PKCS#12 (\(OpenSSLError.drain()))") }
    defer { PKCS12_free(file) }
    for password in passwords {
      if let opened = try Self.open(file, password) {
        self = opened
        return
      }
    }
    guard let opened = try Self.open(file, SecretBytes([])) else {
      if passwords.isEmpty { throw .passwordRequired }
      guard PKCS12_mac_present(file) == 1 else {
        throw .malformed(
          "a PKCS#12 without a MAC, which none of the pass phrases opens (openssl pkcs12 -export makes one, unless told -nomac)"
        )
      }
      throw .wrongPassword
    }
    self = opened
  }

  private init(leaf: Certificate, others: [Certificate], key: PrivateKey?) {
    self.leaf = leaf
    self.key = key
    (chain, self.others) = Self.linked(from: leaf, others)
  }

  /// Returns a PKCS12* whose later operations use the library context with the old algorithms.
  private static func parse(_ der: UnsafeRawBufferPointer) -> OpaquePointer? {
    var file = PKCS12_init_ex(NID_pkcs7_data, LibraryContext.old.handle, nil)
    let parsed = decoded(der, free: PKCS12_free) { d2i_PKCS12(&file, $0, $1) }
    // On failure d2i has freed its argument.
    return parsed
  }

  /// Returns nil when the pass phrase is wrong.
  private static func open(_ file: OpaquePointer, _ password: SecretBytes) throws(CryptoError) -> PKCS12? {
    var key: OpaquePointer?
    var leaf: OpaquePointer?
    var others: OpaquePointer?
    guard let phrase = password.terminated else { return nil }
    let opened = phrase.withUnsafeBytes { bytes in
      PKCS12_parse(file, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), &key, &leaf, &others)
    }
    defer {
      EVP_PKEY_free(key)
      X509_free(leaf)
      copenssl_sk_X509_pop_free(others)
    }
    guard opened == 1 else {
      let error = OpenSSLError.drain()
      if hasPBMAC1(file), OpenSSL_version_num() < firstWithPBMAC1 { throw .unsupported(newMAC) }
      if error.isUnsupported { throw .unsupported(error.description) }
      return nil
    }
    OpenSSLError.discard()
    var certificates: [Certificate] = []
    if let leaf { certificates.append(try reread(leaf)) }
    for index in 0..<copenssl_sk_X509_num(others) {
      if let other = copenssl_sk_X509_value(others, index) { certificates.append(try reread(other)) }
    }
    let privateKey = try key.map { (key) throws(CryptoError) in try reread(key: key) }
    guard let first = certificates.first else {
      throw .absent("a PKCS#12 without a certificate")
    }
    if privateKey != nil, leaf == nil {
      throw .absent("a PKCS#12 whose private key belongs to none of its certificates")
    }
    return PKCS12(leaf: first, others: Array(certificates.dropFirst()), key: privateKey)
  }

  /// RFC 9579.
  static let newMAC = "its MAC is PBMAC1, for which OpenSSL 3.4 is needed"
  private static let firstWithPBMAC1: UInt = 0x3040_0000

  private static func hasPBMAC1(_ file: OpaquePointer) -> Bool {
    var algorithm: UnsafePointer<X509_ALGOR>?
    PKCS12_get0_mac(nil, &algorithm, nil, nil, file)
    return OBJ_obj2nid(algorithm?.pointee.algorithm) == NID_pbmac1
  }

  /// Makes the same object in OpenSSL's default context, so that no object in use depends on the old algorithms.
  private static func reread(_ certificate: OpaquePointer) throws(CryptoError) -> Certificate {
    try Certificate(der: encoded { i2d_X509(certificate, $0) } ?? [])
  }

  private static func reread(key: OpaquePointer) throws(CryptoError) -> PrivateKey {
    guard let info = EVP_PKEY2PKCS8(key) else { throw .malformed("a private key (\(OpenSSLError.drain()))") }
    defer { PKCS8_PRIV_KEY_INFO_free(info) }
    guard let key = EVP_PKCS82PKEY(info) else { throw .malformed("a private key (\(OpenSSLError.drain()))") }
    return PrivateKey(owning: key)
  }

  private static func linked(from leaf: Certificate, _ others: [Certificate]) -> ([Certificate], rest: [Certificate]) {
    var rest = others
    var chain: [Certificate] = []
    var last = leaf
    while !last.isSelfIssued, let next = rest.firstIndex(where: { last.isIssued(by: $0) }) {
      last = rest.remove(at: next)
      chain.append(last)
    }
    return (chain, rest)
  }
}

extension Certificate {
  /// Whether names and key identifiers link the two. The signature is not checked.
  func isIssued(by issuer: Certificate) -> Bool {
    let isIssued = X509_check_issued(issuer.handle, handle) == X509_V_OK
    OpenSSLError.discard()
    return isIssued
  }
}

extension SecretBytes {
  /// The bytes with a final NUL for C; nil when they contain a NUL, at which C would truncate them.
  var terminated: SecretBytes? {
    guard withUnsafeBytes({ !$0.contains(0) }) else { return nil }
    return SecretBytes(capacity: count + 1) { room in
      withUnsafeBytes { room.copyMemory(from: $0) }
      room[count] = 0
      return count + 1
    }
  }
}
