import Bytes
import Crypto
import Testing

@testable import Signature

/// RFC 9421, appendix B.2.
@Suite struct `The vectors of RFC 9421` {
  private func verify(
    _ key: SignatureKey, _ keyID: String, _ label: String, _ input: String, _ signature: String
  ) throws -> SignatureFault? {
    let policy = SignatureVerifier.Policy(
      label: Array(label.utf8), required: [], maxAge: 300, skew: 0, requiresNonce: false)
    let verifier = try #require(SignatureVerifier(policy, keys: [Array(keyID.utf8): key], standIn: nil))
    return verifier.fault(
      RFCExample.request([("Signature-Input", "\(label)=\(input)"), ("Signature", "\(label)=:\(signature):")]),
      hasBody: true)
  }

  @Test func `B.2.1, a signature of nothing by rsa-pss-sha512`() throws {
    let key = try RFCExample.key(RFCExample.rsaPublic, .rsaPSS)
    let fault = try verify(
      key, "test-key-rsa-pss", "sig-b21",
      #"();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd""#,
      "d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbtRxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWhzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q=="
    )
    #expect(fault == nil)
  }

  @Test func `B.2.2, selected components and a parameter of the query`() throws {
    let key = try RFCExample.key(RFCExample.rsaPublic, .rsaPSS)
    let fault = try verify(
      key, "test-key-rsa-pss", "sig-b22",
      #"("@authority" "content-digest" "@query-param";name="Pet");created=1618884473;keyid="test-key-rsa-pss";tag="header-example""#,
      "LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDfKtjvuJyE5qH7KT8UCMkSowOB4+ECxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLEuEfY17SARYhpTlaqwZVtR8NV7+4UKkjqpcAoFqWFQh62s7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99PZfB4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0RoKUqiYY8Bh0aaUEb0rQl3/XaVe4bXTugEjHSw=="
    )
    #expect(fault == nil)
  }

  @Test func `B.2.3, full coverage`() throws {
    let key = try RFCExample.key(RFCExample.rsaPublic, .rsaPSS)
    let input =
      #"("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-rsa-pss""#
    let signature =
      "bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRpRRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA=="
    #expect(try verify(key, "test-key-rsa-pss", "sig-b23", input, signature) == nil)
    // The same key by another algorithm.
    let other = try RFCExample.key(RFCExample.rsaPublic, .rsaPKCS1)
    #expect(try verify(other, "test-key-rsa-pss", "sig-b23", input, signature) == .forged)
    #expect(
      try verify(key, "test-key-rsa-pss", "sig-b23", input.replacing("\"date\" ", with: ""), signature) == .forged)
  }

  @Test func `B.2.4, the signature of a response by ecdsa-p256-sha256`() throws {
    let key = try RFCExample.key(RFCExample.p256Public, .ecdsaP256)
    let base = [
      #""@status": 200"#, #""content-type": application/json"#,
      #""content-digest": sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l5aGgfLQ==:"#,
      #""content-length": 23"#,
      #""@signature-params": ("@status" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-ecc-p256""#,
    ].joined(separator: "\n")
    let signature = try Base64.decode(
      "wNmSUAhwb5LxtOtOpNa6W5xj067m5hFrj0XQ4fvpaCLx0NKocgPquLgyahnzDnDAUy5eCdlYUEkLIj+32oiasw==")
    #expect(key.verify(signature, Array(base.utf8)))
    #expect(!key.verify(signature, Array((base + "x").utf8)))
    #expect(!key.verify(signature.reversed(), Array(base.utf8)))
    #expect(!key.verify(Array(signature.dropLast()), Array(base.utf8)))
    let signer = try RFCExample.key(RFCExample.p256Private, .ecdsaP256, to: .sign)
    for _ in 0..<20 {
      let made = try #require(signer.sign(Array(base.utf8)))
      #expect(made.count == 64 && key.verify(made, Array(base.utf8)))
    }
  }

  @Test func `B.2.5, hmac-sha256, and what it makes is the same`() throws {
    let key = try RFCExample.key(RFCExample.secret, .hmacSHA256)
    let input = #"("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret""#
    let signature = "pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8="
    #expect(try verify(key, "test-shared-secret", "sig-b25", input, signature) == nil)
    let list = try FieldParser.dictionary(Array("sig-b25=\(input)".utf8))
    guard case .list(let items, let parameters)? = list.first?.member else { throw FieldError.tooMany }
    let (text, fault) = SignatureBase.text(of: RFCExample.request(), try items.map { try Component($0) }, parameters)
    let expected = try Base64.decode(signature)
    #expect(fault == nil && key.sign(text) == expected)
  }

  @Test func `B.2.6, ed25519, and what it makes is the same`() throws {
    let key = try RFCExample.key(RFCExample.ed25519Public, .ed25519)
    let input =
      #"("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519""#
    let signature = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="
    #expect(try verify(key, "test-key-ed25519", "sig-b26", input, signature) == nil)
    let list = try FieldParser.dictionary(Array("sig-b26=\(input)".utf8))
    guard case .list(let items, let parameters)? = list.first?.member else { throw FieldError.tooMany }
    let (text, fault) = SignatureBase.text(of: RFCExample.request(), try items.map { try Component($0) }, parameters)
    let signer = try RFCExample.key(RFCExample.ed25519Private, .ed25519, to: .sign)
    let expected = try Base64.decode(signature)
    #expect(fault == nil && signer.sign(text) == expected)
  }

  @Test func `the digest of the example is that of its body`() throws {
    let digest = try ContentDigest(
      RFCExample.request().values(of: Component.contentDigest).first ?? [])
    #expect(Array(#"{"hello": "world"}"#.utf8).withUnsafeBytes { digest.matches($0) })
    #expect(!Array(#"{"hello": "World"}"#.utf8).withUnsafeBytes { digest.matches($0) })
  }
}
