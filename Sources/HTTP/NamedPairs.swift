public import Bytes

/// Searches a sequence of `name=value` pairs, as in a query (`&`) or a Cookie field (`;`), without an allocation.
public enum NamedPairs {
  /// Returns the value of the first pair of this name, without case, or nil. Blanks before a name don't count.
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
