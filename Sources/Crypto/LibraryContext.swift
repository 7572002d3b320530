import COpenSSL

/// An OSSL_LIB_CTX for algorithms that only old files need, which are available nowhere else.
// @unchecked: many threads may use an OpenSSL library context.
final class LibraryContext: @unchecked Sendable {
  /// OSSL_LIB_CTX*; nil, which OpenSSL reads as its default context, only when memory is short.
  let handle: OpaquePointer?

  /// Has the default and legacy providers, which open PKCS#12 and PKCS#8 with RC2-40, 3DES or DES. The first use makes
  /// it. It exists for the life of the process. Without legacy.so the default provider's algorithms still work, and an
  /// old file gives `CryptoError.unsupported`.
  static let old = LibraryContext(providers: ["default", "legacy"])

  private init(providers: [String]) {
    handle = OSSL_LIB_CTX_new()
    for provider in providers { _ = OSSL_PROVIDER_load(handle, provider) }
    OpenSSLError.discard()
  }

  deinit { OSSL_LIB_CTX_free(handle) }
}

extension OpenSSLError {
  /// Whether an algorithm is missing, so that no pass phrase helps.
  var isUnsupported: Bool { codes.contains { copenssl_unsupported_algorithm($0) != 0 } }
}
