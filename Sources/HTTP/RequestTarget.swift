public import Bytes

/// The target of a request (RFC 9112 §3.2), split into its parts but not decoded.
///
/// The type has no authority form, because only CONNECT uses it, and no asterisk form (`OPTIONS *`), which nginx refuses
/// too: the parser refuses both.
public struct RequestTarget: Sendable, Equatable {
  public enum Form: UInt8, Sendable {
    /// `/path?query`
    case origin
    /// `http://authority/path?query`
    case absolute
  }

  public var form: Form
  /// The target as sent.
  public var raw: ByteRange
  /// The path. It begins with `/`, or is empty for an absolute form without a path, which means `/`.
  public var path: ByteRange
  /// The query after the first `?`, without the `?`; nil when the target has no `?`.
  public var query: ByteRange?
  /// The host and port of an absolute form.
  public var authority: ByteRange?

  static let unread = RequestTarget(form: .origin, raw: .absent, path: .absent, query: nil, authority: nil)

  /// Splits `start..<end`: not empty, without space, control character or `#`. `question` is the first `?`, or `end`.
  @inline(__always)
  static func parse(
    _ base: UnsafeRawPointer, _ start: Int, question: Int, _ end: Int
  ) throws(HeadError) -> RequestTarget {
    let raw = ByteRange(start: start, count: end - start)
    let query = question < end ? ByteRange(start: question + 1, count: end - question - 1) : nil
    if ByteScan.byte(base, start) == 0x2F {
      return RequestTarget(
        form: .origin, raw: raw, path: ByteRange(start: start, count: question - start), query: query, authority: nil)
    }
    return try absolute(base, start, question: question, end)
  }

  private static func absolute(
    _ base: UnsafeRawPointer, _ start: Int, question: Int, _ end: Int
  ) throws(HeadError) -> RequestTarget {
    let bytes = UnsafeRawBufferPointer(start: base + start, count: end - start)
    let scheme: Int
    if bytes.count > 7 && bytes[ByteRange(start: 0, count: 7)].equalsIgnoringCase("http://") {
      scheme = 7
    } else if bytes.count > 8 && bytes[ByteRange(start: 0, count: 8)].equalsIgnoringCase("https://") {
      scheme = 8
    } else {
      throw .badTarget
    }
    let authority = start + scheme
    var path = authority
    while path < question && ByteScan.byte(base, path) != 0x2F { path += 1 }
    guard path > authority else { throw .badHost }
    return RequestTarget(
      form: .absolute, raw: ByteRange(start: start, count: end - start),
      path: ByteRange(start: path, count: question - path),
      query: question < end ? ByteRange(start: question + 1, count: end - question - 1) : nil,
      authority: ByteRange(start: authority, count: path - authority))
  }
}

/// A host and port (RFC 9110 §4.2, §7.2).
struct Authority {
  /// The host, without the port and without one trailing dot. An IPv6 address keeps its brackets.
  let host: ByteRange
  let port: UInt16?

  /// Parses an authority. Refuses user information, escapes, an empty host, empty labels and a port that is not a
  /// number up to 65535. `a:` has no port (RFC 3986 §3.2.3).
  @inline(__always)
  init(_ base: UnsafeRawPointer, _ range: ByteRange) throws(HeadError) {
    let start = Int(range.start), end = range.end
    guard start < end else { throw .badHost }
    var at = start
    var hostEnd: Int
    if ByteScan.byte(base, start) == 0x5B {
      at += 1
      while at < end && ByteSet.addressLiteral.contains(ByteScan.byte(base, at)) {
        // nginx refuses two dots in a row within brackets too.
        if ByteScan.byte(base, at) == 0x2E && ByteScan.byte(base, at - 1) == 0x2E { throw .badHost }
        at += 1
      }
      guard at < end, ByteScan.byte(base, at) == 0x5D, at - start > 2, at - start <= 46 else { throw .badHost }
      at += 1
      hostEnd = at
    } else {
      // No label may be empty, not even the first: X509_check_host would match `.test` as a wildcard.
      var previous: UInt8 = 0x2E
      while at < end {
        let byte = ByteScan.byte(base, at)
        if (byte | 0x20) &- 0x61 >= 26 {
          guard ByteSet.host.contains(byte) else { break }
          if byte == 0x2E && previous == 0x2E { throw .badHost }
        }
        previous = byte
        at &+= 1
      }
      hostEnd = previous == 0x2E ? at - 1 : at
      guard hostEnd > start else { throw .badHost }
    }
    host = ByteRange(start: start, count: hostEnd - start)
    port = at == end ? nil : try Self.port(base, at, end)
  }

  /// Parses the port at `at`, where the host's characters end.
  private static func port(_ base: UnsafeRawPointer, _ at: Int, _ end: Int) throws(HeadError) -> UInt16? {
    guard ByteScan.byte(base, at) == 0x3A, end - at <= 6 else { throw .badHost }
    guard at + 1 < end else { return nil }
    var value = 0
    for index in at + 1..<end {
      let digit = ByteScan.byte(base, index) &- 48
      guard digit < 10 else { throw .badHost }
      value = value * 10 + Int(digit)
    }
    guard let port = UInt16(exactly: value) else { throw .badHost }
    return port
  }
}
