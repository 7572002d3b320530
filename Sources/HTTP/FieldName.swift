public import Bytes

/// A field name that the proxy itself may ask about, or `.other` for any different name.
///
/// Why: the head parser recognises each name once; every later comparison is then one comparison or one bit test.
/// The raw values stay below 64, so that a `FieldNameSet` fits in one word.
public enum FieldName: UInt8, Sendable, BitwiseCopyable {
  case other = 0
  case host, connection, contentLength, transferEncoding, te, trailer, upgrade, expect, keepAlive
  case proxyConnection, proxyAuthenticate, proxyAuthorization, authorization, wwwAuthenticate
  case authenticationInfo, date, server, location, refresh, contentType, contentEncoding, contentRange
  case contentDisposition, lastModified, etag, setCookie, cookie, userAgent, referer, origin, accept
  case acceptEncoding, acceptLanguage, acceptRanges, range, ifRange, ifMatch, ifNoneMatch, ifModifiedSince
  case ifUnmodifiedSince, cacheControl, expires, pragma, age, vary, allow, link, via, forwarded, maxForwards
  case xForwardedFor, xForwardedHost, xForwardedProto, xRealIP, xRequestID, xPad, xAccelRedirect
  case xAccelBuffering, xAccelCharset, xAccelExpires, xAccelLimitRate, status, altSvc

  /// Returns the known name that these bytes spell, without case, or `.other` for an unknown name.
  public static func known(_ bytes: UnsafeRawBufferPointer) -> FieldName {
    guard let base = bytes.baseAddress else { return .other }
    return known(base, bytes.count)
  }

  /// Returns the known name that these bytes spell, or `.other`; any byte but a letter or digit counts as a hyphen.
  ///
  /// Why: servers pass fields to programs as variables (CGI, WSGI), and so fold several names into one variable.
  public static func folded(_ name: UnsafeRawBufferPointer) -> FieldName {
    guard name.count < 25 else { return .other }
    return withUnsafeTemporaryAllocation(byteCount: 24, alignment: 8) { folded in
      for index in 0..<name.count { folded[index] = fold(name[index]) }
      return known(UnsafeRawBufferPointer(rebasing: folded[..<name.count]))
    }
  }

  /// Folds a byte of a name as servers that turn field names into variables may do: letters become lower case,
  /// digits stay, and every other byte becomes a hyphen.
  @inlinable public static func fold(_ byte: UInt8) -> UInt8 {
    let letter = byte | 0x20
    if letter &- 0x61 < 26 { return letter }
    return ASCII.isDigit(byte) ? byte : 0x2D
  }

  @inline(__always)
  static func known(_ base: UnsafeRawPointer, _ count: Int) -> FieldName {
    guard count > 1, count < 25 else { return .other }
    let name = FoldedName(base, count)
    switch count {
    case 2:
      if name.spells("te") { return .te }
    case 3:
      if name.spells("age") { return .age }
      if name.spells("via") { return .via }
    case 4:
      if name.spells("host") { return .host }
      if name.spells("date") { return .date }
      if name.spells("etag") { return .etag }
      if name.spells("vary") { return .vary }
      if name.spells("link") { return .link }
    case 5:
      if name.spells("range") { return .range }
      if name.spells("allow") { return .allow }
      if name.spells("x-pad") { return .xPad }
    case 6:
      if name.spells("expect") { return .expect }
      if name.spells("server") { return .server }
      if name.spells("cookie") { return .cookie }
      if name.spells("origin") { return .origin }
      if name.spells("accept") { return .accept }
      if name.spells("pragma") { return .pragma }
      if name.spells("status") { return .status }
    case 7:
      if name.spells("trailer") { return .trailer }
      if name.spells("upgrade") { return .upgrade }
      if name.spells("refresh") { return .refresh }
      if name.spells("referer") { return .referer }
      if name.spells("expires") { return .expires }
      if name.spells("alt-svc") { return .altSvc }
    case 8:
      if name.spells("location") { return .location }
      if name.spells("if-range") { return .ifRange }
      if name.spells("if-match") { return .ifMatch }
    case 9:
      if name.spells("forwarded") { return .forwarded }
      if name.spells("x-real-ip") { return .xRealIP }
    case 10:
      if name.spells("connection") { return .connection }
      if name.spells("keep-alive") { return .keepAlive }
      if name.spells("set-cookie") { return .setCookie }
      if name.spells("user-agent") { return .userAgent }
    case 12:
      if name.spells("content-type") { return .contentType }
      if name.spells("max-forwards") { return .maxForwards }
      if name.spells("x-request-id") { return .xRequestID }
    case 13:
      if name.spells("authorization") { return .authorization }
      if name.spells("content-range") { return .contentRange }
      if name.spells("last-modified") { return .lastModified }
      if name.spells("accept-ranges") { return .acceptRanges }
      if name.spells("if-none-match") { return .ifNoneMatch }
      if name.spells("cache-control") { return .cacheControl }
    case 14:
      if name.spells("content-length") { return .contentLength }
    case 15:
      if name.spells("accept-encoding") { return .acceptEncoding }
      if name.spells("accept-language") { return .acceptLanguage }
      if name.spells("x-forwarded-for") { return .xForwardedFor }
      if name.spells("x-accel-charset") { return .xAccelCharset }
      if name.spells("x-accel-expires") { return .xAccelExpires }
    case 16:
      if name.spells("proxy-connection") { return .proxyConnection }
      if name.spells("www-authenticate") { return .wwwAuthenticate }
      if name.spells("content-encoding") { return .contentEncoding }
      if name.spells("x-forwarded-host") { return .xForwardedHost }
      if name.spells("x-accel-redirect") { return .xAccelRedirect }
    case 17:
      if name.spells("transfer-encoding") { return .transferEncoding }
      if name.spells("if-modified-since") { return .ifModifiedSince }
      if name.spells("x-forwarded-proto") { return .xForwardedProto }
      if name.spells("x-accel-buffering") { return .xAccelBuffering }
    case 18:
      if name.spells("proxy-authenticate") { return .proxyAuthenticate }
      if name.spells("x-accel-limit-rate") { return .xAccelLimitRate }
    case 19:
      if name.spells("proxy-authorization") { return .proxyAuthorization }
      if name.spells("authentication-info") { return .authenticationInfo }
      if name.spells("content-disposition") { return .contentDisposition }
      if name.spells("if-unmodified-since") { return .ifUnmodifiedSince }
    default: break
    }
    return .other
  }
}

/// Up to 24 bytes of a name in three words (the last word may overlap), with capitals folded to lower case.
struct FoldedName {
  let first: UInt64
  let middle: UInt64
  let last: UInt64

  /// Reads `count` bytes. `count` must be 2 through 24, and the caller has checked that these bytes are readable.
  @inline(__always)
  init(_ base: UnsafeRawPointer, _ count: Int) {
    if count >= 8 {
      first = Self.folded(ByteScan.word(base, 0))
      middle = count > 16 ? Self.folded(ByteScan.word(base, 8)) : 0
      last = count > 8 ? Self.folded(ByteScan.word(base, count &- 8)) : 0
    } else if count >= 4 {
      first = Self.folded(ByteScan.half(base, 0) | ByteScan.half(base, count &- 4) << 32)
      middle = 0
      last = 0
    } else {
      let bytes = ByteScan.byte(base, 0), ends = (ByteScan.byte(base, 1), ByteScan.byte(base, count &- 1))
      first = Self.folded(UInt64(bytes) | UInt64(ends.0) << 8 | UInt64(ends.1) << 16)
      middle = 0
      last = 0
    }
  }

  /// Returns whether the name equals `text`, which must be in lower case and have the same length.
  @inline(__always)
  func spells(_ text: StaticString) -> Bool {
    let other = FoldedName(UnsafeRawPointer(text.utf8Start), text.utf8CodeUnitCount)
    return first == other.first && middle == other.middle && last == other.last
  }

  /// Sets 0x20 where 0x40 is set: capitals become lower-case letters, and no other byte becomes a letter.
  @inline(__always)
  private static func folded(_ word: UInt64) -> UInt64 { word | (word >> 1) & 0x2020_2020_2020_2020 }
}

/// A set of known names, one bit each in one word. `.other` may be a member like any name.
public struct FieldNameSet: Sendable, Equatable {
  public var bits: UInt64

  @inlinable public init(bits: UInt64 = 0) { self.bits = bits }

  @inlinable public init(_ names: FieldName...) {
    bits = 0
    for name in names { bits |= 1 &<< UInt64(name.rawValue) }
  }

  @inline(__always) func with(_ name: FieldName) -> FieldNameSet {
    FieldNameSet(bits: bits | 1 &<< UInt64(name.rawValue))
  }

  @inlinable public var isEmpty: Bool { bits == 0 }
  @inlinable @inline(__always) public func contains(_ name: FieldName) -> Bool {
    (bits &>> UInt64(name.rawValue)) & 1 != 0
  }
  @inlinable @inline(__always) public mutating func insert(_ name: FieldName) { bits |= 1 &<< UInt64(name.rawValue) }
  @inlinable @inline(__always) public mutating func remove(_ name: FieldName) { bits &= ~(1 &<< UInt64(name.rawValue)) }
  @inlinable @inline(__always) public func union(_ other: FieldNameSet) -> FieldNameSet {
    FieldNameSet(bits: bits | other.bits)
  }
  @inlinable @inline(__always) public func intersection(_ other: FieldNameSet) -> FieldNameSet {
    FieldNameSet(bits: bits & other.bits)
  }
  @inlinable @inline(__always) public func subtracting(_ other: FieldNameSet) -> FieldNameSet {
    FieldNameSet(bits: bits & ~other.bits)
  }
}
