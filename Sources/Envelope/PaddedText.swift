import Bytes
import Crypto

/// Checks PKCS#7 padding, and computes codes, of a text that may be forged. No branch and no memory address depends on
/// the padding. docs/decisions/0014.
enum PaddedText {
  /// The result of the check. The mask has all bits set, or none.
  struct Padding {
    /// The value of the last byte: 1 to 16 when `isWrong` is 0.
    var count: UInt32
    var isWrong: UInt32
  }

  /// `text`: at least one block.
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

  /// Returns the code of the text without its padding.
  ///
  /// It computes the codes of all sixteen possible texts and picks the right one with masks. So the digest processes
  /// the same number of blocks whatever the padding is. Code without this property is open to Lucky Thirteen.
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

  /// Both arguments must be below 2³¹.
  static func isLess(_ left: UInt32, _ right: UInt32) -> UInt32 { 0 &- ((left &- right) >> 31) }
  static func isEqual(_ left: UInt32, _ right: UInt32) -> UInt32 { isLess(left ^ right, 1) }
}
