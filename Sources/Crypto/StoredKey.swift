import Bytes
import COpenSSL

/// Loads a private key through OpenSSL, as of an HSM: `store:URI` (OSSL_STORE(3)), `engine:pkcs11:ID`.
///
/// OpenSSL's own configuration names the providers (OPENSSL_CONF). Without a PKCS#11 provider, `pkcs11:` leads to OpenSSL's
/// PKCS#11 engine, which OpenSSL 4 no longer has. The key never leaves its token.
enum StoredKey {
  static func load(
    _ name: MaterialReference.KeyName, passwords: [SecretBytes], _ tokens: TokenRefusals
  ) throws(CryptoError) -> PrivateKey {
    switch name {
    case .engine(let identifier): try TokenKey.load(identifier, by: .engine, passwords: passwords, tokens)
    case .store(let uri):
      uri.hasPrefix("pkcs11:")
        ? try TokenKey.load(uri, by: hasLoader(of: "pkcs11") ? .provider : .engine, passwords: passwords, tokens)
        : try load(uri, password: passwords.first)
    }
  }

  private static func hasLoader(of scheme: String) -> Bool {
    let loader = OSSL_STORE_LOADER_fetch(nil, scheme, nil)
    OSSL_STORE_LOADER_free(loader)
    OpenSSLError.discard()
    return loader != nil
  }

  /// `password`: a token's PIN, or a pass phrase. Never prompts at a terminal. Blocks, with a token for a long time.
  static func load(_ uri: String, password: SecretBytes?) throws(CryptoError) -> PrivateKey {
    guard let method = UI_UTIL_wrap_read_pem_callback(copyPassword, 0) else {
      throw .malformed("OpenSSL gives no way to say a PIN (\(OpenSSLError.drain()))")
    }
    defer { UI_destroy_method(method) }
    let none = SecretBytes([])
    let key = (password ?? none).withUnsafeBytes { bytes in
      var phrase = bytes
      return withUnsafeMutablePointer(to: &phrase) { phrase in
        open(uri, method, password == nil ? nil : UnsafeMutableRawPointer(phrase))
      }
    }
    guard let key else { throw .malformed("OpenSSL finds no private key there (\(OpenSSLError.drain()))") }
    OpenSSLError.discard()
    return PrivateKey(owning: key)
  }

  /// Returns one reference, which the caller owns.
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
