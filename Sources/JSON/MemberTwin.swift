import Bytes

extension MemberScanner {
  /// Whether a key equals the name if a parser ignores case, stops at a NUL or ignores blanks at the end. Go and .NET
  /// compare member names with Unicode's case folding, in which U+212A is a `k` and U+017F an `s`. C ends a text at a
  /// NUL.
  static func isTwin(_ key: UnsafeRawBufferPointer, of name: [UInt8]) -> Bool {
    var rest = key.prefix { $0 != 0 }
    while let last = rest.last, last <= 0x20 { rest.removeLast() }
    for byte in name {
      let letter = ASCII.lower(byte)
      if letter == UInt8(ascii: "k"), rest.starts(with: [0xE2, 0x84, 0xAA]) {
        rest.removeFirst(3)
      } else if letter == UInt8(ascii: "s"), rest.starts(with: [0xC5, 0xBF]) {
        rest.removeFirst(2)
      } else {
        guard let first = rest.popFirst(), ASCII.lower(first) == letter else { return false }
      }
    }
    return rest.isEmpty
  }
}
