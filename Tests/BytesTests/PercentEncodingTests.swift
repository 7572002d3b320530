import Bytes
import Testing

@Suite("Percent-encoding")
struct PercentEncodingTests {
  @Test("Every octet is what it was once encoded and decoded, and only unreserved characters stand for themselves")
  func everyOctet() {
    let all = (0...127).map { String(UnicodeScalar(UInt8($0))) }.joined() + "é"
    let encoded = PercentEncoding.encode(all)
    #expect(PercentEncoding.decode(encoded) == Array(all.utf8))
    let literal = encoded.filter { $0 != UInt8(ascii: "%") }
    #expect(literal.allSatisfy { PercentEncoding.encode(String(UnicodeScalar($0))) == [$0] })
    #expect(PercentEncoding.encode("a/b c~") == Array("a%2Fb%20c~".utf8))
  }

  @Test("A percent sign without two digits stands for itself")
  func incomplete() {
    for text in ["%", "%4", "a%zz", "%4g1"] { #expect(PercentEncoding.decode(text.utf8) == Array(text.utf8)) }
    #expect(PercentEncoding.decode("%41%4".utf8) == Array("A%4".utf8))
  }
}
