import Bytes
import Crypto
import Signature
import TestSupport
import Testing

/// The keys and the request of RFC 9421, appendix B.
enum RFCExample {
  static let ed25519Private = """
    -----BEGIN PRIVATE KEY-----
    MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
    -----END PRIVATE KEY-----

    """
  static let ed25519Public = """
    -----BEGIN PUBLIC KEY-----
    MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=
    -----END PUBLIC KEY-----

    """
  static let p256Private = """
    -----BEGIN EC PRIVATE KEY-----
    MHcCAQEEIFKbhfNZfpDsW43+0+JjUr9K+bTeuxopu653+hBaXGA7oAoGCCqGSM49
    AwEHoUQDQgAEqIVYZVLCrPZHGHjP17CTW0/+D9Lfw0EkjqF7xB4FivAxzic30tMM
    4GF+hR6Dxh71Z50VGGdldkkDXZCnTNnoXQ==
    -----END EC PRIVATE KEY-----

    """
  static let p256Public = """
    -----BEGIN PUBLIC KEY-----
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqIVYZVLCrPZHGHjP17CTW0/+D9Lf
    w0EkjqF7xB4FivAxzic30tMM4GF+hR6Dxh71Z50VGGdldkkDXZCnTNnoXQ==
    -----END PUBLIC KEY-----

    """
  static let rsaPublic = """
    -----BEGIN PUBLIC KEY-----
    MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAr4tmm3r20Wd/PbqvP1s2
    +QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct+Lh1GH45x28Rw3Ry53mm+
    oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHq
    gDsznjPFmTOtCEcN2Z1FpWgchwuYLPL+Wokqltd11nqqzi+bJ9cvSKADYdUAAN5W
    Utzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4
    aOT9v6d+nb4bnNkQVklLQ3fVAvJm+xdDOp9LCNCN48V2pnDOkFV6+U9nV5oyc6XI
    2wIDAQAB
    -----END PUBLIC KEY-----

    """
  static let secret = "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ=="
  static let created: Int64 = 1_618_884_473

  static func key(
    _ text: String, _ algorithm: SignatureAlgorithm, to purpose: SignatureKey.Purpose = .verify
  ) throws -> SignatureKey {
    let scene = try Scene()
    defer { scene.end() }
    let path = try scene.write("key", text: text)
    return try SignatureKey.load(MaterialReference(path: path), algorithm, to: purpose)
  }

  /// The request of appendix B.2, with these fields.
  static func request(_ more: [(String, String)] = []) -> SignedMessage {
    message(
      "POST", "/foo?param=Value&Pet=dog",
      [
        ("Host", "example.com"), ("Date", "Tue, 20 Apr 2021 02:07:55 GMT"), ("Content-Type", "application/json"),
        (
          "Content-Digest",
          "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"
        ), ("Content-Length", "18"),
      ] + more)
  }

  static func message(
    _ method: String, _ target: String, _ fields: [(String, String)], authority: String = "example.com"
  ) -> SignedMessage {
    SignedMessage(
      method: Array(method.utf8), isTLS: true, authority: Array(authority.utf8), target: Array(target.utf8),
      fields: fields.map { name, value in
        Array(name.utf8).withUnsafeBytes { name in
          Array(value.utf8).withUnsafeBytes { SignedMessage.Field(name, $0) }
        }
      })
  }
}

/// Components as the configuration writes them.
func components(_ words: [String]) throws -> [Component] { try words.map { try Component(parsing: $0) } }

extension SignatureVerifier {
  /// The fault; nil for a valid signature.
  func fault(_ message: SignedMessage, hasBody: Bool = false, now: Int64 = RFCExample.created) -> SignatureFault? {
    do throws(SignatureFault) {
      _ = try verify(message, hasBody: hasBody, now: now)
      return nil
    } catch { return error }
  }
}
