internal import Bytes

/// A parsed request line (RFC 9112 §3).
struct RequestLine {
  let methodEnd: Int
  let method: Method
  let target: RequestTarget
  let version: HTTPVersion
  /// The position after the line end.
  let end: Int

  /// Parses a request line; returns nil when the line is incomplete.
  @inline(__always)
  static func read(_ base: UnsafeRawPointer, _ available: Int) throws(HeadError) -> RequestLine? {
    var at = 0
    while at < available, ByteSet.method.contains(ByteScan.byte(base, at)) { at &+= 1 }
    guard at < available else { return nil }
    guard ByteScan.byte(base, at) == 0x20, at > 0 else { throw methodFault(ByteScan.byte(base, at)) }
    let methodEnd = at
    let method = Method(base, count: methodEnd)
    if method == .connect { throw .connectMethod }

    let targetStart = at &+ 1
    var question = -1
    at = ByteScan.targetEnd(base, targetStart, available)
    while at < available, ByteScan.byte(base, at) == 0x3F {
      if question < 0 { question = at }
      at = ByteScan.targetEnd(base, at &+ 1, available)
    }
    guard at < available else { return nil }
    guard ByteScan.byte(base, at) == 0x20 else { return try targetFault(base, at, available) }
    let targetEnd = at
    guard targetStart < targetEnd else { throw .badTarget }

    guard let (version, versionEnd) = try HTTPVersion.read(base, at &+ 1, available), versionEnd < available else {
      return nil
    }
    if method == .preface { throw .prefaceMethod }
    let last = ByteScan.byte(base, versionEnd)
    if last != 0x0D && last != 0x0A { throw last < 0x20 ? FieldLines.fault(of: last) : .badRequestLine }
    guard let end = try FieldLines.lineEnd(base, versionEnd, available, .head) else { return nil }
    let target = try RequestTarget.parse(
      base, targetStart, question: question < 0 ? targetEnd : question, targetEnd)
    return RequestLine(methodEnd: methodEnd, method: method, target: target, version: version, end: end)
  }

  /// Reads what a line says that was refused: its method, and its target and version if they are whole. `end`: where the line ends, or
  /// where its bytes end if it is not whole.
  static func readKnown(_ base: UnsafeRawPointer, _ end: Int, isWhole: Bool, _ parsed: inout RequestHead.Parsed) {
    var at = 0
    while at < end, ByteSet.method.contains(ByteScan.byte(base, at)) { at += 1 }
    guard at > 0, at < end, ByteScan.byte(base, at) == 0x20 else { return }
    parsed.method = Method(base, count: at)
    parsed.methodRange = ByteRange(start: 0, count: at)
    let start = at + 1
    at = ByteScan.targetEnd(base, start, end)
    let question = at
    while at < end, ByteScan.byte(base, at) == 0x3F { at = ByteScan.targetEnd(base, at + 1, end) }
    guard start < at, at < end ? ByteScan.byte(base, at) == 0x20 : isWhole,
      let target = try? RequestTarget.parse(base, start, question: question, at)
    else { return }
    parsed.target = target
    guard at < end, let (version, versionEnd) = try? HTTPVersion.read(base, at + 1, end), versionEnd == end else {
      return
    }
    parsed.version = version
    parsed.isVersionKnown = true
  }

  private static func methodFault(_ byte: UInt8) -> HeadError {
    switch byte {
    case 0x00: .nul
    case 0x0A, 0x0D: .badRequestLine
    default: .badMethod
    }
  }

  /// Determines why the target is invalid. Never returns a line; returns nil when the decision needs one more byte.
  private static func targetFault(_ base: UnsafeRawPointer, _ at: Int, _ available: Int) throws(HeadError)
    -> RequestLine?
  {
    switch ByteScan.byte(base, at) {
    case 0x0A, 0x0D:
      guard try FieldLines.lineEnd(base, at, available, .head) != nil else { return nil }
      throw .simpleRequest
    case 0x00: throw .nul
    default: throw .badTarget
    }
  }
}

/// A parsed status line (RFC 9112 §4). As in nginx, the space after a status without a reason may be missing.
struct StatusLine {
  let version: HTTPVersion
  let status: UInt16
  let reason: ByteRange
  /// The position after the line end.
  let end: Int

  /// Parses a status line; returns nil when the line is incomplete.
  @inline(__always)
  static func read(_ base: UnsafeRawPointer, _ available: Int) throws(HeadError) -> StatusLine? {
    guard let (version, versionEnd) = try HTTPVersion.read(base, 0, available) else { return nil }
    var at = versionEnd
    var status: UInt16 = 0
    guard at < available else { return nil }
    guard ByteScan.byte(base, at) == 0x20 else { throw .badStatusLine }
    at &+= 1
    let digitsEnd = at &+ 3
    while at < digitsEnd {
      guard at < available else { return nil }
      let digit = ByteScan.byte(base, at) &- 48
      guard digit < 10 else { throw .badStatusLine }
      status = status &* 10 &+ UInt16(digit)
      at &+= 1
    }
    guard status >= 100 else { throw .badStatusLine }
    guard at < available else { return nil }
    switch ByteScan.byte(base, at) {
    case 0x20: at &+= 1
    case 0x0A, 0x0D: break
    case let byte: throw byte == 0 ? .nul : .badStatusLine
    }
    let reasonStart = at
    at = ByteScan.control(base, at, available)
    while at < available, ByteScan.byte(base, at) == 0x09 { at = ByteScan.control(base, at &+ 1, available) }
    guard let end = try FieldLines.lineEnd(base, at, available, .head) else { return nil }
    return StatusLine(
      version: version, status: status, reason: ByteRange(start: reasonStart, count: at &- reasonStart), end: end)
  }
}

extension HTTPVersion {
  /// Reads the version at `at` and returns where it ends; returns nil when the version is incomplete.
  @inline(__always)
  static func read(
    _ base: UnsafeRawPointer, _ at: Int, _ available: Int
  ) throws(HeadError) -> (HTTPVersion, Int)? {
    if at &+ 8 <= available {
      // The words for "HTTP/1.1" and "HTTP/1.0", with the first byte lowest.
      switch ByteScan.word(base, at) {
      case 0x312E_312F_5054_5448: return (.http11, at &+ 8)
      case 0x302E_312F_5054_5448: return (.http10, at &+ 8)
      default: break
      }
    }
    return try unusual(base, at, available)
  }

  private static func unusual(
    _ base: UnsafeRawPointer, _ at: Int, _ available: Int
  ) throws(HeadError) -> (HTTPVersion, Int)? {
    let form: StaticString = "HTTP/d.d"
    for index in 0..<8 {
      guard at + index < available else { return nil }
      let byte = ByteScan.byte(base, at + index), wanted = form.utf8Start[index]
      if byte == 0 { throw .nul }
      guard wanted == 0x64 ? ASCII.isDigit(byte) : byte == wanted else { throw .badVersion }
    }
    guard ByteScan.byte(base, at + 5) == 0x31 else { throw .unsupportedVersion }
    return (ByteScan.byte(base, at + 7) == 0x30 ? .http10 : .http11, at + 8)
  }
}
