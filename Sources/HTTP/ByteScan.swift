/// Looks through bytes, sixteen at a time, for the first one that ends or spoils an element of a head.
///
/// Why: a head is scanned once per message, and this is where the time of a parser goes. Each scan stays inside
/// `from..<end` of memory that the caller has checked; the last bytes are looked at one by one.
enum ByteScan {
  typealias Block = SIMD16<UInt8>
  typealias Hits = SIMDMask<SIMD16<Int8>>

  /// The first control character (below 0x20, or DEL), or `end`.
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

  /// The first colon, space or control character below it, or `end`: where a field name stops.
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

  /// The first space, control character, `#` or `?`, or `end`: where a part of a request target stops.
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

  /// The place of the first hit, 16 for none.
  @inline(__always)
  private static func first(_ hits: Hits) -> Int {
    let halves = unsafeBitCast(hits, to: SIMD2<UInt64>.self)
    let low = UInt64(littleEndian: halves.x), high = UInt64(littleEndian: halves.y)
    return low != 0 ? low.trailingZeroBitCount >> 3 : 8 &+ high.trailingZeroBitCount >> 3
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
