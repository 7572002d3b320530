import Bytes
import COpenSSL

/// A private key that OpenSSL finds by itself, as of an HSM: `store:URI` (OSSL_STORE(3)), `engine:pkcs11:ID`.
///
/// Which providers there are is said in OpenSSL's own configuration (OPENSSL_CONF). Without one for PKCS#11 its engine
/// stands in. A key of a token never leaves it.
enum StoredKey {
  static func load(
    _ name: MaterialReference.KeyName, passwords: [SecretBytes], _ tokens: TokenRefusals
  ) throws(CryptoError) -> PrivateKey {
    switch name {
    case .engine(let identifier): try TokenKey.load(identifier, passwords: passwords, tokens)
    case .store(let uri):
      uri.hasPrefix("pkcs11:") && !hasLoader(of: "pkcs11")
        ? try TokenKey.load(uri, passwords: passwords, tokens) : try load(uri, passwords: passwords)
    }
  }

  private static func hasLoader(of scheme: String) -> Bool {
    let loader = OSSL_STORE_LOADER_fetch(nil, scheme, nil)
    OSSL_STORE_LOADER_free(loader)
    OpenSSLError.discard()
    return loader != nil
  }

  /// Only the first pass phrase is tried, as a PIN: a token counts wrong ones and locks itself. Nobody is asked at a
  /// terminal. Blocks, and with a token for long.
  private static func load(_ uri: String, passwords: [SecretBytes]) throws(CryptoError) -> PrivateKey {
    guard let method = UI_UTIL_wrap_read_pem_callback(copyPassword, 0) else {
      throw .malformed("OpenSSL gives no way to say a PIN (\(OpenSSLError.drain()))")
    }
    defer { UI_destroy_method(method) }
    let none = SecretBytes([])
    let key = (passwords.first ?? none).withUnsafeBytes { bytes in
      var phrase = bytes
      return withUnsafeMutablePointer(to: &phrase) { phrase in
        open(uri, method, passwords.isEmpty ? nil : UnsafeMutableRawPointer(phrase))
      }
    }
    guard let key else { throw .malformed("OpenSSL finds no private key there (\(OpenSSLError.drain()))") }
    OpenSSLError.discard()
    return PrivateKey(owning: key)
  }

  /// One reference, the caller's.
  private static func open(_ uri: String, _ method: OpaquePointer, _ phrase: UnsafeMutableRawPointer?) -> OpaquePointer?
  {
    guard let store = OSSL_STORE_open(uri, method, phrase, nil, nil) else { return nil }
    defer { OSSL_STORE_close(store) }
    guard OSSL_STORE_expect(store, OSSL_STORE_INFO_PKEY) == 1 else { return nil }
    while OSSL_STORE_eof(store) == 0 {
      guard let found = OSSL_STORE_load(store) else {
        if OSSL_STORE_error(store) == 1 { return nil }
        continue
      }
      defer { OSSL_STORE_INFO_free(found) }
      if OSSL_STORE_INFO_get_type(found) == OSSL_STORE_INFO_PKEY { return OSSL_STORE_INFO_get1_PKEY(found) }
    }
    return nil
  }
}
