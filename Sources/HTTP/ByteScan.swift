/// Looks through bytes eight at a time for the first one that ends or spoils an element of a head.
///
/// Why: a head is scanned once per message, and this is where the time of a proxy goes. Each scan stays inside
/// `from..<end` of memory that the caller has checked; the last bytes are looked at one by one.
enum ByteScan {
  /// The first control character (below 0x20, or DEL), or `end`.
  @inline(__always)
  static func control(_ base: UnsafeRawPointer, _ from: Int, _ end: Int) -> Int {
    var at = from
    while at &+ 8 <= end {
      let word = word(base, at)
      let hits = below(word, 0x20) | equal(word, 0x7F)
      if hits != 0 { return at &+ hits.trailingZeroBitCount >> 3 }
      at &+= 8
    }
    while at < end {
      let byte = byte(base, at)
      if byte < 0x20 || byte == 0x7F { return at }
      at &+= 1
    }
    return end
  }

  /// The first colon, space or control character below it, or `end`: where a field name stops.
  @inline(__always)
  static func nameEnd(_ base: UnsafeRawPointer, _ from: Int, _ end: Int) -> Int {
    var at = from
    while at &+ 8 <= end {
      let word = word(base, at)
      let hits = below(word, 0x21) | equal(word, 0x3A)
      if hits != 0 { return at &+ hits.trailingZeroBitCount >> 3 }
      at &+= 8
    }
    while at < end {
      let byte = byte(base, at)
      if byte < 0x21 || byte == 0x3A { return at }
      at &+= 1
    }
    return end
  }

  /// The first space, control character, `#` or `?`, or `end`: where a part of a request target stops.
  @inline(__always)
  static func targetEnd(_ base: UnsafeRawPointer, _ from: Int, _ end: Int) -> Int {
    var at = from
    while at &+ 8 <= end {
      let word = word(base, at)
      let hits = below(word, 0x21) | equal(word, 0x7F) | equal(word, 0x23) | equal(word, 0x3F)
      if hits != 0 { return at &+ hits.trailingZeroBitCount >> 3 }
      at &+= 8
    }
    while at < end {
      let byte = byte(base, at)
      if byte < 0x21 || byte == 0x7F || byte == 0x23 || byte == 0x3F { return at }
      at &+= 1
    }
    return end
  }

  @inline(__always)
  static func byte(_ base: UnsafeRawPointer, _ at: Int) -> UInt8 { base.load(fromByteOffset: at, as: UInt8.self) }

  /// Eight bytes, the first one lowest.
  @inline(__always)
  static func word(_ base: UnsafeRawPointer, _ at: Int) -> UInt64 {
    UInt64(littleEndian: base.loadUnaligned(fromByteOffset: at, as: UInt64.self))
  }

  @inline(__always)
  static func half(_ base: UnsafeRawPointer, _ at: Int) -> UInt64 {
    UInt64(UInt32(littleEndian: base.loadUnaligned(fromByteOffset: at, as: UInt32.self)))
  }

  private static var ones: UInt64 { 0x0101_0101_0101_0101 }
  private static var highs: UInt64 { 0x8080_8080_8080_8080 }

  /// The high bit of bytes below `limit` (at most 0x80). The lowest bit set is exact; a borrow may set later ones.
  @inline(__always)
  private static func below(_ word: UInt64, _ limit: UInt64) -> UInt64 {
    (word &- ones &* limit) & ~word & highs
  }

  /// The high bit of bytes equal to `value`, exact as `below` is.
  @inline(__always)
  private static func equal(_ word: UInt64, _ value: UInt64) -> UInt64 {
    let difference = word ^ (ones &* value)
    return (difference &- ones) & ~difference & highs
  }
}

/// A set of ASCII bytes, two words wide; bytes from 0x80 up are never members.
struct ByteSet {
  let low: UInt64
  let high: UInt64

  @inline(__always)
  func contains(_ byte: UInt8) -> Bool {
    byte < 128 && ((byte < 64 ? low : high) >> UInt64(byte & 63)) & 1 != 0
  }

  /// Whether every byte is a member; true for none.
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
  /// Letters, digits and hyphen: what nginx's `ignore_invalid_headers` calls a valid name.
  static var ordinaryName: ByteSet { ByteSet(low: 0x03ff_2000_0000_0000, high: 0x07ff_fffe_07ff_fffe) }
  /// nginx's method characters: capitals, `_` and `-`.
  static var method: ByteSet { ByteSet(low: 0x0000_2000_0000_0000, high: 0x0000_0000_87ff_fffe) }
  /// `unreserved` of RFC 3986 §2.3. Escapes and sub-delims of a reg-name name no server, and are read in two ways.
  static var host: ByteSet { ByteSet(low: 0x03ff_6000_0000_0000, high: 0x47ff_fffe_87ff_fffe) }
  /// What stands between the brackets of an IPv6 address.
  static var addressLiteral: ByteSet { ByteSet(low: 0x07ff_4000_0000_0000, high: 0x0000_007e_0000_007e) }
  /// What nginx's `NGX_ESCAPE_URI` leaves as it is.
  static var unescapedPath: ByteSet { ByteSet(low: 0x2fff_ffd2_0000_0000, high: 0x47ff_fffe_afff_ffff) }
}
