package import Bytes
import COpenSSL

/// What a PKCS#12 file held, opened: a key with its certificate and chain, or certificates alone.
package struct PKCS12: Sendable {
  /// The certificate that the key belongs to; without a key the first one.
  package let leaf: Certificate
  /// The other certificates: from the leaf's issuer upwards as far as they link, then the rest as they stood.
  package let chain: [Certificate]
  package let key: PrivateKey?

  /// Every certificate, the leaf first.
  package var certificates: [Certificate] { [leaf] + chain }

  /// Opens a file with the first pass phrase that fits; the empty one, in both its spellings, is tried last.
  ///
  /// Modern (PBES2) and old (RC2-40, 3DES) ones alike.
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
      throw passwords.isEmpty ? .passwordRequired : .wrongPassword
    }
    self = opened
  }

  private init(leaf: Certificate, others: [Certificate], key: PrivateKey?) {
    self.leaf = leaf
    self.key = key
    self.chain = Self.linked(from: leaf, others)
  }

  /// A PKCS12* whose later work is done in the context that has the old algorithms.
  private static func parse(_ der: UnsafeRawBufferPointer) -> OpaquePointer? {
    var file = PKCS12_init_ex(NID_pkcs7_data, LibraryContext.old.handle, nil)
    let parsed = decoded(der, free: PKCS12_free) { d2i_PKCS12(&file, $0, $1) }
    // On failure d2i has freed what it was given.
    return parsed
  }

  /// nil when the pass phrase is a wrong one.
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

  /// The same object in OpenSSL's default context: nothing that serves keeps the old algorithms at hand.
  private static func reread(_ certificate: OpaquePointer) throws(CryptoError) -> Certificate {
    try Certificate(der: encoded { i2d_X509(certificate, $0) } ?? [])
  }

  private static func reread(key: OpaquePointer) throws(CryptoError) -> PrivateKey {
    guard let info = EVP_PKEY2PKCS8(key) else { throw .malformed("a private key (\(OpenSSLError.drain()))") }
    defer { PKCS8_PRIV_KEY_INFO_free(info) }
    guard let key = EVP_PKCS82PKEY(info) else { throw .malformed("a private key (\(OpenSSLError.drain()))") }
    return PrivateKey(owning: key)
  }

  private static func linked(from leaf: Certificate, _ others: [Certificate]) -> [Certificate] {
    var rest = others
    var chain: [Certificate] = []
    var last = leaf
    while !last.isSelfIssued, let next = rest.firstIndex(where: { last.isIssued(by: $0) }) {
      last = rest.remove(at: next)
      chain.append(last)
    }
    return chain + rest
  }
}

extension Certificate {
  /// Names and key identifiers link; the signature is not looked at.
  func isIssued(by issuer: Certificate) -> Bool {
    let isIssued = X509_check_issued(issuer.handle, handle) == X509_V_OK
    OpenSSLError.discard()
    return isIssued
  }
}

extension SecretBytes {
  /// With the NUL that C's strings end with; nil when there is one inside already, at which C would cut it short.
  var terminated: SecretBytes? {
    guard withUnsafeBytes({ !$0.contains(0) }) else { return nil }
    return SecretBytes(capacity: count + 1) { room in
      withUnsafeBytes { room.copyMemory(from: $0) }
      room[count] = 0
      return count + 1
    }
  }
}
