import Bytes
import Crypto
import Testing

@testable import Envelope

@Suite struct `Padded texts` {
  @Test func `padding is right or wrong as RFC 5652 has it`() {
    var generator = SystemRandomNumberGenerator()
    for last in UInt8.min...UInt8.max {
      for spoilt in -1..<16 {
        var block = (0..<32).map { _ in UInt8.random(in: 0...255, using: &generator) }
        if (1...16).contains(last) { for index in 32 - Int(last)..<32 { block[index] = last } }
        block[31] = last
        if spoilt >= 0, spoilt < 15 { block[16 + spoilt] ^= 0x40 }
        let count = Int(last)
        let isRight = (1...16).contains(count) && block.suffix(count).allSatisfy { $0 == last }
        let found = block.withUnsafeBytes { PaddedText.padding(of: $0) }
        #expect(found.isWrong == (isRight ? 0 : .max), "\(block)")
        if isRight { #expect(found.count == UInt32(count)) }
      }
    }
  }

  @Test(arguments: [0, 17, 32, 255] as [UInt8])
  func `whole blocks of what is no padding are wrong`(byte: UInt8) {
    let text = [UInt8](repeating: byte, count: 32)
    #expect(text.withUnsafeBytes { PaddedText.padding(of: $0) }.isWrong == .max)
  }

  @Test func `the code is that of the text without its padding`() throws {
    let key = try #require(MACKey(.hmacSHA256, SecretBytes([UInt8](repeating: 5, count: 32))))
    for blocks in [1, 2, 4, 5, 9] {
      for padding in 1...16 {
        let text = (0..<blocks * 16).map { UInt8(truncatingIfNeeded: $0 * 5) }
        let code = text.withUnsafeBytes {
          PaddedText.code(of: $0, PaddedText.Padding(count: UInt32(padding), isWrong: 0), key)
        }
        var mac = key.begin()
        text.dropLast(padding).withUnsafeBytes { mac.add($0) }
        let expected = mac.finish()
        #expect(code == expected, "\(blocks) \(padding)")
      }
    }
  }

  @Test func `masks are all bits or none`() {
    for left in 0...300 as ClosedRange<UInt32> {
      for right in 0...300 as ClosedRange<UInt32> {
        let isRight =
          PaddedText.isLess(left, right) == (left < right ? .max : 0)
          && PaddedText.isEqual(left, right) == (left == right ? .max : 0)
        if !isRight { Issue.record("\(left) \(right)") }
      }
    }
  }
}
