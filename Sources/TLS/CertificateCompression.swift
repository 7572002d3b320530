import COpenSSL
import Crypto

/// Certificates compressed in handshakes (RFC 8879, `ssl_certificate_compression`).
///
/// OpenSSL 3.2 and later offer it by themselves to every peer, and compress at each handshake what a client presents. It is
/// off here, as in nginx: it saves octets where a line is slow, and costs both sides time.
enum CertificateCompression {
  // SSL_OP_NO_TX_CERTIFICATE_COMPRESSION and SSL_OP_NO_RX_CERTIFICATE_COMPRESSION. The headers of OpenSSL 3.0 don't name them,
  // and its library ignores them.
  private static let noSending: UInt64 = 1 << 32
  private static let noReceiving: UInt64 = 1 << 33

  static func turnOff(_ context: OpaquePointer) { SSL_CTX_set_options(context, noSending | noReceiving) }

  /// Compresses the context's certificates, once, and lets peers send theirs compressed. Call it when the certificates are
  /// set.
  static func turnOn(_ context: OpaquePointer) {
    SSL_CTX_clear_options(context, noSending | noReceiving)
    // Without a certificate, as in a server that refuses every handshake, there is nothing to compress.
    _ = copenssl_ctx_compress_certs(context)
    OpenSSLError.discard()
  }

  /// Whether this OpenSSL compresses certificates: it is 3.2 or later, and was built with a compression.
  static let isAvailable: Bool = {
    defer { OpenSSLError.discard() }
    guard let context = SSL_CTX_new(TLS_server_method()) else { return false }
    defer { SSL_CTX_free(context) }
    return copenssl_ctx_can_compress_certs(context) == 1
  }()
}

extension ServerTLSSettings {
  /// Returns why certificates go uncompressed, whatever `ssl_certificate_compression` says; nil when nothing prevents it.
  public var compressionHindrance: String? {
    if !versions.contains(.tls13) { return "TLSv1.3 is not among ssl_protocols" }
    // The response travels with the certificate, and the compressed message is made once.
    if stapling != .off { return "with ssl_stapling, each certificate is sent with a new OCSP response" }
    if !CertificateCompression.isAvailable {
      return "this OpenSSL doesn't compress certificates; OpenSSL 3.2 and later do where they have zlib, zstd or brotli"
    }
    return nil
  }
}
