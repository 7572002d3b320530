/// Finds the first byte that ends or invalidates an element of a head, sixteen bytes at a time.
///
/// Why: the parser spends most of its time in these scans, which run over the bytes of every head.
/// Each scan stays inside `from..<end` of memory that the caller has checked, and reads the last bytes one by one.
enum ByteScan {
  typealias Block = SIMD16<UInt8>
  typealias Hits = SIMDMask<SIMD16<Int8>>

  /// Returns the position of the first control character (below 0x20, or DEL), or `end`.
  @inline(__always)
  static func control(_ base: UnsafeRawPointer, _ from: Int, _ end: Int) -> Int {
    var at = from
    while at &+ 16 <= end {
      let block = block(base, at)
      let first = first((block .< Block(repeating: 0x20)) .| (block .== Block(repeating: 0x7F)))
      at &+= first
      if first < 16 { return at }
    }
    while at < end {
      let byte = byte(base, at)
      if byte < 0x20 || byte == 0x7F { return at }
      at &+= 1
    }
    return end
  }

  /// Returns the position of the first colon, space or control character below it, or `end`: the end of a field name.
  @inline(__always)
  static func nameEnd(_ base: UnsafeRawPointer, _ from: Int, _ end: Int) -> Int {
    var at = from
    while at &+ 16 <= end {
      let block = block(base, at)
      let first = first((block .< Block(repeating: 0x21)) .| (block .== Block(repeating: 0x3A)))
      at &+= first
      if first < 16 { return at }
    }
    while at < end {
      let byte = byte(base, at)
      if byte < 0x21 || byte == 0x3A { return at }
      at &+= 1
    }
    return end
  }

  /// Returns the position of the first space, control character, `#` or `?`, or `end`: the end of a target's part.
  @inline(__always)
  static func targetEnd(_ base: UnsafeRawPointer, _ from: Int, _ end: Int) -> Int {
    var at = from
    while at &+ 16 <= end {
      let block = block(base, at)
      let ends = (block .< Block(repeating: 0x21)) .| (block .== Block(repeating: 0x7F))
      let marks = (block .== Block(repeating: 0x23)) .| (block .== Block(repeating: 0x3F))
      let first = first(ends .| marks)
      at &+= first
      if first < 16 { return at }
    }
    while at < end {
      let byte = byte(base, at)
      if byte < 0x21 || byte == 0x7F || byte == 0x23 || byte == 0x3F { return at }
      at &+= 1
    }
    return end
  }

  @inline(__always)
  private static func block(_ base: UnsafeRawPointer, _ at: Int) -> Block {
    base.loadUnaligned(fromByteOffset: at, as: Block.self)
  }

  /// Returns the index of the first matching byte, or 16 if no byte matches.
  @inline(__always)
  private static func first(_ hits: Hits) -> Int {
    let halves = unsafeBitCast(hits, to: SIMD2<UInt64>.self)
    let low = UInt64(littleEndian: halves.x), high = UInt64(littleEndian: halves.y)
    return low != 0 ? low.trailingZeroBitCount >> 3 : 8 &+ high.trailingZeroBitCount >> 3
  }

  @inline(__always)
  static func byte(_ base: UnsafeRawPointer, _ at: Int) -> UInt8 { base.load(fromByteOffset: at, as: UInt8.self) }

  /// Reads eight bytes as one word, with the first byte lowest.
  @inline(__always)
  static func word(_ base: UnsafeRawPointer, _ at: Int) -> UInt64 {
    UInt64(littleEndian: base.loadUnaligned(fromByteOffset: at, as: UInt64.self))
  }

  @inline(__always)
  static func half(_ base: UnsafeRawPointer, _ at: Int) -> UInt64 {
    UInt64(UInt32(littleEndian: base.loadUnaligned(fromByteOffset: at, as: UInt32.self)))
  }
}

/// A set of ASCII bytes, stored in two words. Bytes from 0x80 up are never members.
struct ByteSet {
  let low: UInt64
  let high: UInt64

  @inline(__always)
  func contains(_ byte: UInt8) -> Bool {
    byte < 128 && ((byte < 64 ? low : high) >> UInt64(byte & 63)) & 1 != 0
  }

  /// Returns whether every byte is a member; returns true for an empty range.
  @inline(__always)
  func containsAll(_ base: UnsafeRawPointer, _ from: Int, _ end: Int) -> Bool {
    var at = from
    while at < end {
      if !contains(ByteScan.byte(base, at)) { return false }
      at &+= 1
    }
    return true
  }

  /// `tchar` of RFC 9110 §5.6.2.
  static var token: ByteSet { ByteSet(low: 0x03ff_6cfa_0000_0000, high: 0x57ff_ffff_c7ff_fffe) }
  /// Letters, digits and hyphen: a valid name for nginx's `ignore_invalid_headers`.
  static var ordinaryName: ByteSet { ByteSet(low: 0x03ff_2000_0000_0000, high: 0x07ff_fffe_07ff_fffe) }
  /// nginx's method characters: capitals, `_` and `-`.
  static var method: ByteSet { ByteSet(low: 0x0000_2000_0000_0000, high: 0x0000_0000_87ff_fffe) }
  /// `unreserved` of RFC 3986 §2.3. Escapes and sub-delims are out: no server name has them, and parsers differ.
  static var host: ByteSet { ByteSet(low: 0x03ff_6000_0000_0000, high: 0x47ff_fffe_87ff_fffe) }
  /// The characters that may stand between the brackets of an IPv6 address.
  static var addressLiteral: ByteSet { ByteSet(low: 0x07ff_4000_0000_0000, high: 0x0000_007e_0000_007e) }
  /// The characters that nginx's `NGX_ESCAPE_URI` does not escape.
  static var unescapedPath: ByteSet { ByteSet(low: 0x2fff_ffd2_0000_0000, high: 0x47ff_fffe_afff_ffff) }
  /// The characters that nginx does not escape in a query.
  static var unescapedArgument: ByteSet { ByteSet(low: 0x27ff_f792_0000_0000, high: 0x47ff_fffe_afff_ffff) }
}
