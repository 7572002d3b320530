import Bytes
import Testing

struct SecretBytesTests {
  @Test func `the bytes are those that were given`() {
    SecretBytes([1, 2, 3]).withUnsafeBytes { #expect(Array($0) == [1, 2, 3]) }
    #expect(SecretBytes([]).isEmpty)
  }

  @Test func `only what was filled is there`() {
    let secret = SecretBytes(capacity: 8) { room in
      room[0] = 7
      return 1
    }
    #expect(secret.count == 1)
    secret.withUnsafeBytes { #expect(Array($0) == [7]) }
  }

  @Test func `a count beyond the room, or below none, is cut to it`() {
    #expect(SecretBytes(capacity: 2) { _ in 9 }.count == 2)
    #expect(SecretBytes(capacity: 2) { _ in -1 }.count == 0)
  }

  @Test func `it is not printed in any way`() {
    let secret = SecretBytes(Array("hunter2".utf8))
    var dumped = ""
    dump(secret, to: &dumped)
    for text in ["\(secret)", String(reflecting: secret), dumped, "\([secret])"] {
      #expect(!text.contains("hunter2") && !text.contains("104"))
    }
    #expect("\(secret)" == "(7 secret bytes)")
  }

  @Test func `what fill throws is thrown`() {
    struct Refusal: Error {}
    #expect(throws: Refusal.self) {
      try SecretBytes(capacity: 4) { (_: UnsafeMutableRawBufferPointer) throws(Refusal) -> Int in throw Refusal() }
    }
  }
}

struct ConstantTimeTests {
  @Test func `equal means every byte`() {
    #expect(ConstantTime.equal([], []))
    #expect(ConstantTime.equal([1, 2, 3], [1, 2, 3]))
    #expect(!ConstantTime.equal([1, 2, 3], [1, 2]))
    for index in 0..<32 {
      for bit in 0..<8 {
        var other = [UInt8](repeating: 0xA5, count: 32)
        other[index] ^= 1 << UInt8(bit)
        #expect(!ConstantTime.equal([UInt8](repeating: 0xA5, count: 32), other))
      }
    }
  }
}
