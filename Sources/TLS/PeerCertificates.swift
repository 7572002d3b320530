import COpenSSL
import Crypto

/// The certificates that a peer sends in a handshake, while OpenSSL asks for their verification.
///
/// The library context of TLS has no decoders of public keys (`HandshakeAlgorithms.context`): most peers send a chain that is
/// kept with its keys, and decoding both keys of a chain takes a quarter of a handshake. The handshake goes on with the
/// certificates that stand in the stack when the callback returns, so each of them must have its key by then. A leaf without
/// one makes OpenSSL refuse the handshake.
enum PeerCertificates {
  /// Puts certificates with public keys in the place of those whose keys OpenSSL has not decoded. A key that no decoder
  /// knows stays as it is.
  static func decodeKeys(in store: OpaquePointer) {
    let stack = X509_STORE_CTX_get0_untrusted(store)
    ERR_set_mark()
    defer { ERR_pop_to_mark() }
    for place in 0..<max(0, copenssl_sk_X509_num(stack)) {
      guard let own = copenssl_sk_X509_value(stack, place), X509_get0_pubkey(own) == nil, let whole = parsed(own) else {
        continue
      }
      put(whole, at: place, in: store)
    }
  }

  /// Replaces a certificate of the stack, and takes over a reference to the new one.
  static func put(_ certificate: OpaquePointer, at place: Int32, in store: OpaquePointer) {
    let stack = X509_STORE_CTX_get0_untrusted(store), former = copenssl_sk_X509_value(stack, place)
    guard copenssl_sk_X509_set(stack, place, certificate) != nil else { return X509_free(certificate) }
    // The verification points to its leaf without a reference.
    if X509_STORE_CTX_get0_cert(store) == former { X509_STORE_CTX_set_cert(store, certificate) }
    X509_free(former)
  }

  /// Parses the certificate anew, with its key. Returns nil if its key can't be decoded.
  private static func parsed(_ certificate: OpaquePointer) -> OpaquePointer? {
    let der = Certificate(retaining: certificate).der
    var whole = X509_new_ex(HandshakeAlgorithms.certificates, nil)
    let isParsed = der.withUnsafeBufferPointer { bytes in
      var start = bytes.baseAddress
      return d2i_X509(&whole, &start, bytes.count) != nil
    }
    guard isParsed, X509_get0_pubkey(whole) != nil else {
      X509_free(whole)
      return nil
    }
    return whole
  }
}
