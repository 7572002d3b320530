import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

@Suite struct `Keys of ciphers and MACs` {
  private func load(_ text: String, _ lengths: ClosedRange<Int> = 16...16) throws -> [UInt8] {
    let scene = try Scene()
    defer { scene.end() }
    let file = MaterialReference(path: try scene.write("key", text: text))
    let key = try SymmetricKeyFile.load(file, expecting: .cipherKey, lengths: lengths)
    return key.withUnsafeBytes { Array($0) }
  }

  @Test(arguments: [
    "000102030405060708090a0b0c0d0e0f", " 000102030405060708090A0B0C0D0E0F\r\n", "AAECAwQFBgcICQoLDA0ODw==\n",
  ])
  func `hexadecimal and base64 are read, blanks around left out`(text: String) throws {
    #expect(try load(text) == Array(0...15))
  }

  @Test func `what reads as hexadecimal is not tried as base64`() throws {
    let text = String(repeating: "ab", count: 16)
    #expect(try load(text, 16...24) == [UInt8](repeating: 0xAB, count: 16))
    #expect(try load("ghij" + text.dropLast(4), 16...24).count == 24)
  }

  @Test(arguments: [
    ("0001", "2 bytes (as hexadecimal), but a key of this cipher has 16"),
    ("AAEZ", "3 bytes (as base64), but a key of this cipher has 16"),
    ("hello world", "neither hexadecimal digits nor padded base64"), ("  \n", "neither hexadecimal digits"),
    ("AAECAwQFBgcICQoLDA0ODw", "neither hexadecimal digits nor padded base64"), ("", "empty"),
    ("00:01:02:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f", "neither"),
  ])
  func `what is no key is told`(text: String, reason: String) throws {
    let error = try #require(throws: MaterialError.self) { try load(text) }
    #expect(error.message.contains(reason), "\(error.message)")
    #expect(error.message.contains("/key\""))
  }

  @Test func `a code of no key does not exist, and one of a key is HMAC's`() throws {
    #expect(MACKey(.hmacSHA256, SecretBytes([])) == nil)
    // RFC 4231 §4.3, RFC 2202 §3.
    let key = SecretBytes(Array("Jefe".utf8)), text = Array("what do ya want for nothing?".utf8)
    func code(_ algorithm: MACAlgorithm) throws -> String {
      var mac = try #require(MACKey(algorithm, key)).begin()
      text.withUnsafeBytes { mac.add($0) }
      return Hex.encode(mac.finish())
    }
    #expect(try code(.hmacSHA256) == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    #expect(try code(.hmacSHA1) == "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79")
  }
}
