import COpenSSL
import Testing

@testable import TLS

@Suite struct `The library context of handshakes` {
  /// Without it every handshake costs a third more, and nothing else would tell.
  @Test func `is used with an OpenSSL that no configuration changes`() {
    #expect(HandshakeAlgorithms.context != nil)
  }

  @Test func `has no algorithm that TLS does not use`() throws {
    let context = try #require(HandshakeAlgorithms.context)
    let certificates = try #require(HandshakeAlgorithms.certificates)
    for name in ["AES-256-XTS", "AES-192-GCM"] { #expect(EVP_CIPHER_fetch(context, name, nil) == nil) }
    #expect(EVP_MD_fetch(context, "SHA3-256", nil) == nil && EVP_CIPHER_fetch(certificates, "AES-256-GCM", nil) == nil)
    let needed = [
      (context, ["SHA1", "SHA256", "SHA384", "SHA512", "MD5-SHA1"]),
      (certificates, ["SHA1", "SHA256", "SHA384", "SHA512", "SHA3-256"]),
    ]
    for (context, name) in needed.flatMap({ context, names in names.map { (context, $0) } }) {
      let digest = EVP_MD_fetch(context, name, nil)
      #expect(digest != nil, "\(name)")
      EVP_MD_free(digest)
    }
  }
}
