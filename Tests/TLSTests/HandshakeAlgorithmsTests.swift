import COpenSSL
import Testing

@testable import TLS

@Suite struct `The library context of handshakes` {
  /// Without it every handshake costs a third more, and nothing else would tell.
  @Test func `is used with an OpenSSL that no configuration changes`() {
    #expect(HandshakeAlgorithms.context != nil)
  }

  @Test func `decodes public keys, and has no algorithm that TLS does not use`() throws {
    let context = try #require(HandshakeAlgorithms.context)
    #expect(EVP_CIPHER_fetch(context, "AES-256-XTS", nil) == nil)
    for name in ["SHA1", "SHA256", "SHA384", "SHA512", "SHA3-256", "MD5-SHA1"] {
      let digest = EVP_MD_fetch(context, name, nil)
      #expect(digest != nil, "\(name)")
      EVP_MD_free(digest)
    }
  }
}
