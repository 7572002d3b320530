public import Bytes

/// Pairs `name=value` in a row, as in a query (`&`) and in Cookie (`;`), looked through without an allocation.
public enum NamedPairs {
  /// The value of the first pair of this name, letters folded; blanks before a name don't count. nil: there is none.
  public static func value(
    of name: [UInt8], in bytes: UnsafeRawBufferPointer, _ range: ByteRange, separator: UInt8
  ) -> ByteRange? {
    guard range.end <= bytes.count, let base = bytes.baseAddress else { return nil }
    var start = Int(range.start)
    while start < range.end {
      var end = start
      while end < range.end, ByteScan.byte(base, end) != separator { end += 1 }
      while start < end, ByteScan.byte(base, start) == 0x20 || ByteScan.byte(base, start) == 0x09 { start += 1 }
      let equals = start + name.count
      if equals < end, ByteScan.byte(base, equals) == 0x3D,
        name.withUnsafeBytes({ at(base, ByteRange(start: start, count: name.count)).equalsIgnoringCase($0) })
      {
        return ByteRange(start: equals + 1, count: end - equals - 1)
      }
      start = end + 1
    }
    return nil
  }
}
