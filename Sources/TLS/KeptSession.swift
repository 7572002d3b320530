import COpenSSL

/// An established session, kept for resumption. Owns one reference.
// @unchecked: OpenSSL counts references atomically and does not change a session once it is established.
final class KeptSession: @unchecked Sendable {
  let handle: OpaquePointer

  init(owning handle: OpaquePointer) { self.handle = handle }
  deinit { SSL_SESSION_free(handle) }

  /// Adds a reference, which OpenSSL will own.
  func retained() -> OpaquePointer {
    SSL_SESSION_up_ref(handle)
    return handle
  }
}
