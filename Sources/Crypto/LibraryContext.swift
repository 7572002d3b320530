import COpenSSL

/// An OSSL_LIB_CTX of its own, so that algorithms which only old files need are nowhere else.
// @unchecked: OpenSSL's library contexts are made for use by many threads.
final class LibraryContext: @unchecked Sendable {
  /// OSSL_LIB_CTX*; nil, which OpenSSL reads as its default context, only when memory is short.
  let handle: OpaquePointer?

  /// Default and legacy providers: opens PKCS#12 and PKCS#8 with RC2-40, 3DES or DES. Made at the first use, kept for
  /// the life of the process. Without legacy.so the default provider's algorithms still work, and an old file is
  /// `CryptoError.unsupported`.
  static let old = LibraryContext(providers: ["default", "legacy"])

  private init(providers: [String]) {
    handle = OSSL_LIB_CTX_new()
    for provider in providers { _ = OSSL_PROVIDER_load(handle, provider) }
    OpenSSLError.discard()
  }

  deinit { OSSL_LIB_CTX_free(handle) }
}

extension OpenSSLError {
  /// An algorithm is missing, which no pass phrase can mend.
  var isUnsupported: Bool { codes.contains { copenssl_unsupported_algorithm($0) != 0 } }
}
