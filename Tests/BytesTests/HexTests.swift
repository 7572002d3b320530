import Bytes
import Testing

struct HexTests {
  @Test func `both cases are written`() {
    #expect(Hex.encode([0x00, 0x9A, 0xFF]) == "009aff")
    #expect(Hex.encode([0x00, 0x9A, 0xFF], .upper) == "009AFF")
    #expect(Hex.encode([]) == "")
  }

  @Test(arguments: ["009aff", "009AFF", "00:9a:FF"])
  func `both cases are read, with and without colons`(text: String) throws {
    #expect(try Hex.decode(text) == [0x00, 0x9A, 0xFF])
  }

  @Test func `nothing is nothing and one octet needs no colon`() throws {
    #expect(try Hex.decode("") == [])
    #expect(try Hex.decode("ab") == [0xAB])
  }

  @Test(arguments: ["a", "abc", "ab:c", "ab:cd:e"])
  func `half an octet is refused`(text: String) {
    #expect(throws: Hex.DecodingError.oddCount(text.filter { $0 != ":" }.count)) { try Hex.decode(text) }
  }

  @Test(arguments: [":ab", "ab:", "ab:cd:", "abcd:ef", "ab:cdef", "a:bc", "ab::cd", ":"])
  func `a colon anywhere but between all octets is refused`(text: String) {
    #expect(throws: (any Error).self) { try Hex.decode(text) }
  }

  @Test(arguments: ["0x12", "gg", " ab", "ab ", "a\u{0}"])
  func `a character that is no digit is refused`(text: String) {
    #expect(throws: (any Error).self) { try Hex.decode(text) }
  }
}
