import COpenSSL

/// An established session, kept to be resumed. Owns one reference.
// @unchecked: OpenSSL counts references atomically and does not change a session once it is established.
final class KeptSession: @unchecked Sendable {
  let handle: OpaquePointer

  init(owning handle: OpaquePointer) { self.handle = handle }
  deinit { SSL_SESSION_free(handle) }

  /// A further reference, for OpenSSL.
  func retained() -> OpaquePointer {
    SSL_SESSION_up_ref(handle)
    return handle
  }
}
