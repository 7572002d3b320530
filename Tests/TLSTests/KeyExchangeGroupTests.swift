import COpenSSL
import Testing

@testable import TLS

@Suite struct `The name of a key exchange's group` {
  /// Without an object number, as OpenSSL reports the groups that only a provider knows, such as X25519MLKEM768.
  private static func bare(_ number: Int32) -> Int32 { TLSEXT_nid_unknown | number }

  @Test func `is OpenSSL's where it has one, and the number of RFC 8446 where it has none`() throws {
    let context = try #require(SSL_CTX_new(TLS_client_method()))
    defer { SSL_CTX_free(context) }
    let ssl = try #require(SSL_new(context))
    defer { SSL_free(ssl) }
    #expect(KeyExchangeGroup.name(NID_X9_62_prime256v1, ssl) == "prime256v1")
    #expect(KeyExchangeGroup.name(NID_X25519, ssl) == "X25519")
    #expect(KeyExchangeGroup.name(Self.bare(0x1d), ssl).lowercased() == "x25519")
    #expect(KeyExchangeGroup.name(Self.bare(0xfafa), ssl) == "0xfafa")
    let hybrid = KeyExchangeGroup.name(Self.bare(0x11ec), ssl)
    // OpenSSL 3.5 brought ML-KEM.
    #expect(hybrid == (OpenSSL_version_num() >= 0x3050_0000 ? "X25519MLKEM768" : "0x11ec"))
    #expect(KeyExchangeGroup.name(0, ssl).isEmpty && KeyExchangeGroup.negotiated(ssl).isEmpty)
  }
}
