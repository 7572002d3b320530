import COpenSSL
import Testing

@testable import TLS

@Suite struct `The cause of a failed handshake` {
  /// ERR_PACK: the library's number stands before the reason's.
  private func code(_ library: Int32, _ reason: Int32) -> UInt { UInt(library) << 23 | UInt(reason) }

  @Test(
    arguments: [
      (SSL_R_HTTP_REQUEST, .plainHTTP), (SSL_R_HTTPS_PROXY_REQUEST, .plainHTTP),
      (SSL_R_CERTIFICATE_VERIFY_FAILED, .certificate), (SSL_R_NO_SHARED_CIPHER, .cipher),
      (SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, .noCertificate), (SSL_R_UNSUPPORTED_PROTOCOL, .version),
      (SSL_R_NO_APPLICATION_PROTOCOL, .applicationProtocol), (1048, .serverCertificateRefused),
    ] as [(Int32, HandshakeCause)])
  func `is told by a reason of libssl, and never by the same number of another library`(
    reason: Int32, cause: HandshakeCause
  ) {
    #expect(HandshakeCause(openSSL: code(ERR_LIB_SSL, reason)) == cause)
    for library in [
      ERR_LIB_EC, ERR_LIB_ASN1, ERR_LIB_RSA, ERR_LIB_X509, ERR_LIB_EVP, ERR_LIB_PROV, ERR_LIB_DSA, ERR_LIB_DH,
      ERR_LIB_CRYPTO, ERR_LIB_OSSL_DECODER,
    ] {
      #expect(HandshakeCause(openSSL: code(library, reason)) == .malformed, "library \(library)")
    }
  }

  @Test func `is sallyport's own where memory is short, in whichever library`() {
    for library in [ERR_LIB_SSL, ERR_LIB_EVP] {
      #expect(HandshakeCause(openSSL: code(library, Int32(ERR_R_MALLOC_FAILURE))) == .internal)
    }
  }
}
