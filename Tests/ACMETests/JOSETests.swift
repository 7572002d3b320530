import Bytes
import Crypto
import JSON
import Testing

@testable import ACME

@Suite struct `Signed requests of ACME` {
  /// Splits a flattened JWS into its protected header, its payload and its signature.
  private func parts(_ text: String) throws -> (header: JSONValue, payload: String, signed: [UInt8], signature: [UInt8])
  {
    let value = try JSONValue(Array(text.utf8))
    let protected = try #require(value["protected"]?.text), payload = try #require(value["payload"]?.text)
    return (
      try JSONValue(Base64.decodeURL(protected)),
      String(decoding: try Base64.decodeURL(payload), as: UTF8.self), Array("\(protected).\(payload)".utf8),
      try Base64.decodeURL(#require(value["signature"]?.text))
    )
  }

  @Test(arguments: [
    (PrivateKey.Kind.p256, "ES256", 64), (.p384, "ES384", 96), (.p521, "ES512", 132), (.rsa(bits: 2048), "RS256", 256),
    (.ed25519, "EdDSA", 64),
  ])
  func `each kind of key signs by its own algorithm`(kind: PrivateKey.Kind, name: String, length: Int) throws {
    let key = try JSONWebKey(PrivateKey.generate(kind))
    let text = try #require(
      JWS.body("{\"a\":1}", url: "https://ca.test/x", nonce: "n-1", signer: .newAccount, key: key))
    let found = try parts(text)
    #expect(found.header["alg"]?.text == name)
    #expect(found.header["nonce"]?.text == "n-1" && found.header["url"]?.text == "https://ca.test/x")
    #expect(found.header["jwk"] == (try JSONValue(Array(key.publicText.utf8))) && found.header["kid"] == nil)
    #expect(found.payload == "{\"a\":1}" && found.signature.count == length)
  }

  @Test func `a request that only reads has an empty payload, and names the account`() throws {
    let key = try JSONWebKey(PrivateKey.generate())
    let text = try #require(
      JWS.body(nil, url: "https://ca.test/x", nonce: "n", signer: .account("https://ca.test/acct/\"1"), key: key))
    let found = try parts(text)
    #expect(found.payload.isEmpty && found.header["jwk"] == nil)
    #expect(found.header["kid"]?.text == "https://ca.test/acct/\"1")
  }

  /// RFC 7515 appendix A.2 has the key and the signature of RS256, which is deterministic; RFC 7638 §3.1 a thumbprint.
  @Test func `thumbprints and signatures are those of the RFCs`() throws {
    // RFC 8037 appendix A: Ed25519.
    let seed = try Base64.decodeURL("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
    let pkcs8: [UInt8] = [0x30, 0x2E, 2, 1, 0, 0x30, 5, 6, 3, 0x2B, 0x65, 0x70, 4, 0x22, 4, 0x20] + seed
    let key = try JSONWebKey(pkcs8.withUnsafeBytes { try PrivateKey(der: $0) })
    #expect(
      key.publicText == #"{"crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#)
    #expect(Base64.encodeURL(key.thumbprint) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k")
    let signed = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
    #expect(
      Base64.encodeURL(try #require(key.sign(Array(signed.utf8))))
        == "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg")
  }

  @Test func `an external account is bound by its own key (RFC 8555, section 7.3.4)`() throws {
    let key = try JSONWebKey(PrivateKey.generate())
    let secret = SecretBytes(Array("0123456789abcdef0123456789abcdef".utf8))
    let account = ExternalAccount(identifier: "kid-1", key: secret)
    let found = try parts(#require(JWS.binding(account, url: "https://ca.test/new", key: key)))
    #expect(found.header["alg"]?.text == "HS256" && found.header["kid"]?.text == "kid-1")
    #expect(found.header["nonce"] == nil && found.payload == key.publicText)
    var mac = try #require(MACKey(.hmacSHA256, secret)).begin()
    found.signed.withUnsafeBytes { mac.add($0) }
    #expect(mac.finish() == found.signature)
  }

  @Test func `the file of an external account is base64url, as CAs give it`() {
    func read(_ text: String) -> [UInt8]? {
      ExternalAccount(identifier: "k", file: SecretBytes(Array(text.utf8)))?.key.withUnsafeBytes { Array($0) }
    }
    #expect(read("AQID\n") == [1, 2, 3] && read(" _-8= \n") == [0xFF, 0xEF])
    #expect(read("") == nil && read("!!") == nil && read("+/8=") == nil)
  }

  @Test func `base64url has one spelling`() throws {
    for count in 0..<20 {
      let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 83 &+ 250) }
      #expect(try Base64.decodeURL(Base64.encodeURL(bytes)) == bytes)
    }
    for text in ["a", "ab=", "ab==", "a+b/", "aGk ", "ab\n", "AB"] {
      #expect(throws: Base64.DecodingError.self, "\(text)") { try Base64.decodeURL(text) }
    }
  }

  @Test func `weak keys are refused`() throws {
    #expect(throws: CryptoError.self) { try JSONWebKey(PrivateKey.generate(.rsa(bits: 1024))) }
  }
}
