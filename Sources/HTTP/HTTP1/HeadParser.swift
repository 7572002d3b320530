internal import Bytes
internal import Glibc

/// The result of parsing the bytes so far.
public enum HeadOutcome: Sendable, Equatable {
  /// The head is incomplete. Call again with these bytes and more.
  case incomplete
  /// The head is complete. Remove `consumed` bytes from the front.
  case complete(consumed: Int)
  /// The head is invalid. Send an error response and close; the caller must read nothing more from this connection.
  case failed(HeadError)
}

/// Parses the heads on one connection, one after another, by the strict reading of RFC 9112.
///
/// While the result is `.incomplete`, the caller must pass the same bytes with more appended, and the same head.
/// The parser reads each complete line once, and reads an unfinished line again only when its line end has arrived.
/// A peer that sends single bytes therefore causes no more work than a peer that sends the head at once.
public struct HeadParser: Sendable {
  /// The bytes of empty lines that a client may send before a request (RFC 9112 §2.2).
  private static var leadingBytes: Int { 8 }

  /// The bytes of empty lines before the head.
  private var skipped = 0
  /// The position up to which the parser has searched the unread line for its end, from the head's first byte.
  private var searched = 0
  /// The position of the first unread line, from the head's first byte.
  private var lineStart = 0

  public init() {}

  /// Parses a request head at the front of `bytes`.
  public mutating func request(
    _ bytes: UnsafeRawBufferPointer, limits: HeadLimits, into head: RequestHead
  ) -> HeadOutcome {
    do throws(HeadError) {
      guard try skipEmptyLines(bytes), let start = bytes.baseAddress else { return .incomplete }
      let base = start + skipped, available = bytes.count - skipped
      guard try holdsLine(base, available, limits) else { return .incomplete }
      if lineStart == 0 {
        head.reset()
        guard let line = try RequestLine.read(base, available) else {
          return try awaitMore(available, limits)
        }
        if line.end > limits.lineBytes { throw .requestLineTooLong }
        head.parsed.method = line.method
        head.parsed.methodRange = ByteRange(start: 0, count: line.methodEnd)
        head.parsed.target = line.target
        head.parsed.version = line.version
        lineStart = line.end
      }
      guard
        let end = try FieldLines.read(
          base, available, lineStart: &lineStart, section: .head, limits: limits, into: &head.storage.list)
      else {
        return try awaitMore(available, limits)
      }
      if end > limits.headBytes { throw .headTooLarge }
      try Self.finish(base, limits, head)
      head.storage.buffer.append(UnsafeRawBufferPointer(start: base, count: end))
      let consumed = skipped + end
      self = HeadParser()
      return .complete(consumed: consumed)
    } catch {
      keepKnown(bytes, limits, head)
      self = HeadParser()
      return .failed(error)
    }
  }

  /// Parses a response head at the front of `bytes`; the response answers a request with `requestMethod`.
  public mutating func response(
    _ bytes: UnsafeRawBufferPointer, limits: HeadLimits, requestMethod: Method,
    startsWith start: ResponseStart = .statusLine, into head: ResponseHead
  ) -> HeadOutcome {
    do throws(HeadError) {
      guard let base = bytes.baseAddress else { return .incomplete }
      guard try holdsLine(base, bytes.count, limits) else { return .incomplete }
      if lineStart == 0 {
        head.reset()
        guard let hasStatusLine = start.hasStatusLine(bytes) else { return try awaitMore(bytes.count, limits) }
        if hasStatusLine {
          guard let line = try StatusLine.read(base, bytes.count) else { return try awaitMore(bytes.count, limits) }
          if line.end > limits.lineBytes { throw .fieldTooLarge }
          head.parsed.version = line.version
          head.parsed.status = line.status
          head.parsed.reason = line.reason
          lineStart = line.end
        }
      }
      guard
        let end = try FieldLines.read(
          base, bytes.count, lineStart: &lineStart, section: .head, limits: limits, into: &head.storage.list)
      else {
        return try awaitMore(bytes.count, limits)
      }
      if end > limits.headBytes { throw .headTooLarge }
      try Self.finish(base, limits, head, requestMethod, start)
      head.storage.buffer.append(UnsafeRawBufferPointer(start: base, count: end))
      self = HeadParser()
      return .complete(consumed: end)
    } catch {
      head.reset()
      self = HeadParser()
      // `awaitMore` doesn't know whose first line it is.
      return .failed(error == .requestLineTooLong ? .fieldTooLarge : error)
    }
  }

  /// Checks the request as a whole.
  @inline(__always)
  private static func finish(
    _ base: UnsafeRawPointer, _ limits: HeadLimits, _ head: RequestHead
  ) throws(HeadError) {
    let facts = try MessageFacts(&head.storage.list, base, limits)
    if head.parsed.method == .trace { throw .traceMethod }
    let version = head.parsed.version
    let hasHost = facts.present.contains(.host)
    try facts.refuseRepeated()
    try facts.refuseTabs(base)
    if !hasHost && version == .http11 { throw .missingHost }
    if hasHost || head.parsed.target.authority != nil {
      let authority = try Authority(base, hasHost ? facts.host : head.parsed.target.authority ?? .absent)
      // Both must be the same bytes: a server behind may judge by either (RFC 9112 §3.2.2 would ignore Host).
      if hasHost, let asked = head.parsed.target.authority, !HTTP.at(base, asked).equals(HTTP.at(base, facts.host)) {
        throw .differentHost
      }
      head.parsed.host = authority.host
      head.parsed.port = authority.port
    }
    head.parsed.framing = try facts.framing.request(version)
    head.parsed.keepsAlive = facts.keepsAlive(version) && !Self.hasUnusualBody(head)
    head.parsed.expectsContinue = facts.expectsContinue && version == .http11
    head.parsed.upgrade = facts.upgrade(version)
    head.parsed.acceptsTrailers = facts.acceptsTrailers
    head.storage.present = facts.present
  }

  /// Whether a GET, HEAD or DELETE of HTTP/1.0 has a body, which RFC 1945 doesn't know. nginx before 1.29.7 sends such
  /// requests. A sender that takes the body for its next request gets no response to it: the connection ends.
  private static func hasUnusualBody(_ head: RequestHead) -> Bool {
    guard head.parsed.version == .http10, head.parsed.framing != .none, head.parsed.framing != .length(0) else {
      return false
    }
    return [.get, .head, .delete].contains(head.parsed.method)
  }

  /// Checks the response as a whole.
  @inline(__always)
  private static func finish(
    _ base: UnsafeRawPointer, _ limits: HeadLimits, _ head: ResponseHead, _ method: Method, _ start: ResponseStart
  ) throws(HeadError) {
    var facts = try MessageFacts(&head.storage.list, base, limits)
    if start != .statusLine { try head.becomeProgramResponse(base, &facts) }
    let decision = try facts.framing.response(head.parsed.version, status: head.parsed.status, to: method)
    head.parsed.framing = decision.framing
    head.parsed.repeated = facts.repeated
    head.parsed.announcedLength = facts.framing.length
    head.parsed.keepsAlive =
      start == .statusLine && facts.keepsAlive(head.parsed.version) && decision.isTrusted
      && decision.framing != .untilClose
    head.parsed.upgrade = facts.upgrade(head.parsed.version)
    head.storage.present = facts.present
  }

  /// Skips the empty lines. Returns false when no byte has arrived after them.
  @inline(__always)
  private mutating func skipEmptyLines(_ bytes: UnsafeRawBufferPointer) throws(HeadError) -> Bool {
    guard skipped < bytes.count, let base = bytes.baseAddress else { return false }
    guard lineStart == 0 else { return true }
    while ByteScan.byte(base, skipped) <= 0x0D {
      guard let next = try FieldLines.lineEnd(base, skipped, bytes.count, .head) else { return false }
      guard next <= Self.leadingBytes else { throw .badRequestLine }
      skipped = next
      guard skipped < bytes.count else { return false }
    }
    return true
  }

  /// Returns whether the unfinished line may have its end now.
  @inline(__always)
  private mutating func holdsLine(
    _ base: UnsafeRawPointer, _ available: Int, _ limits: HeadLimits
  ) throws(HeadError) -> Bool {
    guard searched > lineStart else { return true }
    guard searched < available else { return false }
    if memchr(base + searched, 0x0A, available - searched) != nil { return true }
    _ = try awaitMore(available, limits)
    return false
  }

  /// Waits for the rest of an unfinished line; refuses the line if it is already too long.
  private mutating func awaitMore(_ available: Int, _ limits: HeadLimits) throws(HeadError) -> HeadOutcome {
    if available - lineStart > limits.lineBytes {
      throw lineStart == 0 ? .requestLineTooLong : .fieldTooLarge
    }
    if available > limits.headBytes { throw .headTooLarge }
    searched = available
    return .incomplete
  }

  /// Gives up on a request whose head never became complete. `bytes` are the part that arrived.
  public mutating func abandon(_ bytes: UnsafeRawBufferPointer, limits: HeadLimits, _ head: RequestHead) {
    keepKnown(bytes, limits, head)
    self = HeadParser()
  }

  /// Keeps what is known of a refused request: its first line, for the access log even if that is no request line, and
  /// what could be read of method, target and host. No field is kept, because an error page may go to an upstream.
  private func keepKnown(_ bytes: UnsafeRawBufferPointer, _ limits: HeadLimits, _ head: RequestHead) {
    guard let start = bytes.baseAddress, skipped < bytes.count else {
      head.reset()
      head.parsed.refusedLine = .absent
      head.parsed.isVersionKnown = false
      return
    }
    let base = start + skipped
    let line = UnsafeRawBufferPointer(start: base, count: min(bytes.count - skipped, limits.lineBytes))
    let lineEnd = line.firstIndex { $0 == 0x0A || $0 == 0x0D }
    let known = head.parsed, isLineRead = lineStart > 0
    let host = isLineRead ? head.knownHost(base) : nil
    head.reset()
    head.parsed.refusedLine = ByteRange(start: 0, count: lineEnd ?? line.count)
    head.parsed.isVersionKnown = isLineRead
    head.storage.buffer.append(
      UnsafeRawBufferPointer(start: base, count: isLineRead ? lineStart : lineEnd ?? line.count))
    guard isLineRead else {
      return RequestLine.readKnown(base, lineEnd ?? line.count, isWhole: lineEnd != nil, &head.parsed)
    }
    head.parsed.method = known.method
    head.parsed.methodRange = known.methodRange
    head.parsed.target = known.target
    head.parsed.version = known.version
    head.take(host)
  }
}

extension RequestHead {
  /// The host of a head that was refused, by the fields that were read; nil unless they and the target name one host.
  /// `base`: the first byte of the storage of the fields' ranges.
  func knownHost(_ base: UnsafeRawPointer) -> Authority? {
    let hosts = fields.filter { HTTP.at(base, $0.name).equalsIgnoringCase("host") }.map(\.value)
    let all = hosts + [target.authority].compactMap { $0 }
    guard hosts.count < 2, let one = all.first,
      all.allSatisfy({ HTTP.at(base, $0).equals(HTTP.at(base, one)) })
    else { return nil }
    return try? Authority(base, one)
  }

  func take(_ host: Authority?) {
    guard let host else { return }
    parsed.host = host.host
    parsed.port = host.port
  }
}
