import Bytes
import Crypto

/// PKCS#7 padding of a text that may be forged, and codes over such a text, without a branch or a memory address that
/// depends on what the padding is. docs/decisions/0014.
enum PaddedText {
  /// What the padding comes to. Masks: all bits set, or none.
  struct Padding {
    /// What the last byte says: 1 to 16 where `isWrong` is 0.
    var count: UInt32
    var isWrong: UInt32
  }

  /// `text`: a block at least.
  @inline(never)
  static func padding(of text: UnsafeRawBufferPointer) -> Padding {
    let block = text.suffix(Cipher.blockCount)
    let count = UInt32(text[text.count - 1])
    var wrong = isLess(count, 1) | isLess(16, count)
    var fromEnd: UInt32 = 0
    for byte in block.reversed() {
      wrong |= isLess(fromEnd, count) & ~isEqual(UInt32(byte), count)
      fromEnd &+= 1
    }
    return Padding(count: count, isWrong: wrong)
  }

  /// The code of the text without its padding. All sixteen texts that it may be are authenticated, and the right code is
  /// picked by masks: the digest does the same count of blocks whatever the padding is (Lucky Thirteen did not).
  @inline(never)
  static func code(of text: UnsafeRawBufferPointer, _ padding: Padding, _ key: MACKey) -> [UInt8] {
    let certain = text.count - Cipher.blockCount
    var running = key.begin()
    running.add(UnsafeRawBufferPointer(rebasing: text[..<certain]))
    var picked = [UInt8](repeating: 0, count: key.algorithm.count)
    for more in 0..<Cipher.blockCount {
      let code = running.copy().finish()
      let mask = UInt8(truncatingIfNeeded: isEqual(UInt32(truncatingIfNeeded: 16 - more), padding.count))
      if code.count == picked.count { for index in picked.indices { picked[index] |= code[index] & mask } }
      running.add(UnsafeRawBufferPointer(rebasing: text[(certain + more)...(certain + more)]))
    }
    return picked
  }

  /// Below 2³¹ both.
  static func isLess(_ left: UInt32, _ right: UInt32) -> UInt32 { 0 &- ((left &- right) >> 31) }
  static func isEqual(_ left: UInt32, _ right: UInt32) -> UInt32 { isLess(left ^ right, 1) }
}
