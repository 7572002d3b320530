import Bytes
import Testing

struct Base64Tests {
  /// RFC 4648 §10.
  static let vectors = [
    ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
    ("foobar", "Zm9vYmFy"),
  ]

  @Test(arguments: vectors)
  func `the RFC's vectors are written and read`(plain: String, text: String) throws {
    #expect(Base64.encode(Array(plain.utf8)) == text)
    #expect(try Base64.decode(text) == Array(plain.utf8))
  }

  @Test func `every byte at every place of a group comes back`() throws {
    for byte in UInt8.min...UInt8.max {
      for bytes in [[byte], [0xFF, byte], [0, 0xFF, byte], [byte, byte, byte, byte]] {
        #expect(try Base64.decode(Base64.encode(bytes)) == bytes)
      }
    }
    #expect(Base64.encode([0xFB, 0xEF, 0xFF]) == "++//")
  }

  @Test func `padding left out is refused`() {
    #expect(throws: Base64.DecodingError.length(2)) { try Base64.decode("Zg") }
    #expect(throws: Base64.DecodingError.length(3)) { try Base64.decode("Zg=") }
    #expect(throws: Base64.DecodingError.length(1)) { try Base64.decode("=") }
  }

  @Test func `padding that has nothing to pad is refused`() {
    #expect(throws: (any Error).self) { try Base64.decode("====") }
    #expect(throws: (any Error).self) { try Base64.decode("Z===") }
    #expect(throws: Base64.DecodingError.padding(at: 2)) { try Base64.decode("Zg==Zg==") }
    #expect(throws: Base64.DecodingError.padding(at: 2)) { try Base64.decode("Zg=v") }
  }

  @Test func `bits that encoding would have left zero are refused`() {
    #expect(throws: Base64.DecodingError.trailingBits) { try Base64.decode("Zh==") }
    #expect(throws: Base64.DecodingError.trailingBits) { try Base64.decode("Zm9=") }
  }

  @Test(arguments: ["Zm9v\n", " Zm9", "Zm-_", "Zm\u{0}v", "Zmüv"])
  func `a character outside the alphabet is refused`(text: String) {
    #expect(throws: (any Error).self) { try Base64.decode(text) }
  }

  @Test func `an error says which character and where`() {
    #expect(throws: Base64.DecodingError.alphabet(0x2D, at: 2)) { try Base64.decode("Zm-_") }
    #expect(Base64.DecodingError.alphabet(0x2D, at: 2).description.contains("'-' at character 3"))
    #expect(Base64.DecodingError.alphabet(0x0A, at: 4).description.contains("0x0A"))
  }
}
