import COpenSSL

/// By what `sallyport health` marks its handshakes with the listeners of the process that it asks: a random number, which the
/// process tells only root and its own user, in an extension of the ClientHello.
///
/// It presents no certificate, so a listener that demands one refuses it. That is no fault of a client: a marked handshake
/// that fails is neither counted nor told. The mark changes nothing else.
package struct HealthMark: Sendable, Hashable {
  package static let length = 16
  /// For private use (RFC 8446 §11).
  private static let type: UInt32 = 0xFF5A

  package let bytes: [UInt8]

  /// A new one.
  package init() { bytes = (0..<Self.length).map { _ in .random(in: 0 ... .max) } }

  /// nil: these are not so many bytes.
  package init?(bytes: [UInt8]) {
    guard bytes.count == Self.length else { return nil }
    self.bytes = bytes
  }

  /// OpenSSL keeps only the extensions that it knows for the callback of the ClientHello. Fails only for lack of memory:
  /// then no handshake counts as marked.
  static func listen(_ context: OpaquePointer) {
    _ = SSL_CTX_add_custom_ext(context, type, UInt32(SSL_EXT_CLIENT_HELLO), nil, nil, nil, nil, nil)
  }

  /// Puts a mark into the ClientHellos of a client's context. `bytes`: `length` of them, there as long as the context is.
  static func add(_ bytes: UnsafeMutablePointer<UInt8>, to context: OpaquePointer) {
    let give: SSL_custom_ext_add_cb_ex = { _, _, _, out, count, _, _, _, argument in
      guard let argument, let out, let count else { return 0 }
      out.pointee = UnsafePointer(argument.assumingMemoryBound(to: UInt8.self))
      count.pointee = HealthMark.length
      return 1
    }
    _ = SSL_CTX_add_custom_ext(context, type, UInt32(SSL_EXT_CLIENT_HELLO), give, nil, bytes, nil, nil)
  }

  /// Whether a ClientHello has this mark. Only for the callback of the ClientHello.
  func isIn(_ ssl: OpaquePointer) -> Bool {
    var start: UnsafePointer<UInt8>?
    var count = 0
    guard SSL_client_hello_get0_ext(ssl, Self.type, &start, &count) == 1, count == Self.length, let start else {
      return false
    }
    // In constant time: a stranger must not find the mark byte by byte.
    return zip(bytes, UnsafeBufferPointer(start: start, count: count)).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
  }
}
