internal import Bytes
internal import Glibc

/// What came of the bytes so far.
public enum HeadOutcome: Sendable, Equatable {
  /// Call again with these bytes and more.
  case incomplete
  /// The head is whole; take so many bytes off the front.
  case complete(consumed: Int)
  /// Answer and close; nothing more is read from this connection.
  case failed(HeadError)
}

/// Reads one head after another (RFC 9112), strictly.
///
/// Between calls with `.incomplete` the bytes must only grow, and the head be the same; whole lines are read
/// once, so that bytes which arrive in drips cost no more than all at once.
public struct HeadParser: Sendable {
  /// A client may send a few empty lines ahead of a request (RFC 9112 §2.2).
  private static var leadingBytes: Int { 8 }

  /// Empty lines before the head.
  private var skipped = 0
  /// How far the unread line has been searched for its end, from the head's first byte.
  private var searched = 0
  private var lines = FieldLines()

  public init() {}

  /// Reads a request head at the front of `bytes`.
  public mutating func request(
    _ bytes: UnsafeRawBufferPointer, limits: HeadLimits, into head: RequestHead
  ) -> HeadOutcome {
    do throws(HeadError) {
      guard try skipEmptyLines(bytes), let start = bytes.baseAddress else { return .incomplete }
      let base = start + skipped, available = bytes.count - skipped
      guard try holdsLine(base, available, limits) else { return .incomplete }
      if lines.lineStart == 0 {
        head.reset()
        guard let line = try RequestLine.read(base, available) else {
          return try awaitMore(available, limits)
        }
        if line.end > limits.lineBytes { throw .requestLineTooLong }
        head.method = line.method
        head.methodRange = ByteRange(start: 0, count: line.methodEnd)
        head.target = line.target
        head.version = line.version
        lines.lineStart = line.end
      }
      guard let end = try lines.read(base, available, section: .head, limits: limits, into: &head.list) else {
        return try awaitMore(available, limits)
      }
      if end > limits.headBytes { throw .headTooLarge }
      try finish(base, head)
      head.bytes.append(UnsafeRawBufferPointer(start: base, count: end))
      let consumed = skipped + end
      self = HeadParser()
      return .complete(consumed: consumed)
    } catch {
      keepRequestLine(bytes, head)
      self = HeadParser()
      return .failed(error)
    }
  }

  /// Reads a response head at the front of `bytes`, of a response to `requestMethod`.
  public mutating func response(
    _ bytes: UnsafeRawBufferPointer, limits: HeadLimits, requestMethod: Method, into head: ResponseHead
  ) -> HeadOutcome {
    do throws(HeadError) {
      guard let base = bytes.baseAddress else { return .incomplete }
      guard try holdsLine(base, bytes.count, limits) else { return .incomplete }
      if lines.lineStart == 0 {
        head.reset()
        guard let line = try StatusLine.read(base, bytes.count) else { return try awaitMore(bytes.count, limits) }
        if line.end > limits.lineBytes { throw .fieldTooLarge }
        head.version = line.version
        head.status = line.status
        head.reason = line.reason
        lines.lineStart = line.end
      }
      guard let end = try lines.read(base, bytes.count, section: .head, limits: limits, into: &head.list) else {
        return try awaitMore(bytes.count, limits)
      }
      if end > limits.headBytes { throw .headTooLarge }
      try finish(base, head, requestMethod)
      head.bytes.append(UnsafeRawBufferPointer(start: base, count: end))
      self = HeadParser()
      return .complete(consumed: end)
    } catch {
      head.reset()
      self = HeadParser()
      return .failed(error)
    }
  }

  /// What holds of the request as a whole.
  @inline(__always)
  private func finish(_ base: UnsafeRawPointer, _ head: RequestHead) throws(HeadError) {
    let version = head.version
    let hasHost = lines.facts.present.contains(.host)
    if lines.facts.hasTwoHosts { throw .repeatedHost }
    if !hasHost && version == .http11 { throw .missingHost }
    if hasHost || head.target.authority != nil {
      // The authority of an absolute form counts (RFC 9112 §3.2.2), but a bad Host beside it is refused all the same.
      var authority = try Authority(base, hasHost ? lines.facts.host : head.target.authority ?? .empty)
      if hasHost, let inTarget = head.target.authority { authority = try Authority(base, inTarget) }
      head.host = authority.host
      head.port = authority.port
    }
    head.framing = try lines.facts.framing.request(version)
    head.persists = lines.facts.persists(version)
    head.expectsContinue = lines.facts.expectsContinue && version == .http11
    head.upgrade = lines.facts.upgrade(version)
    head.acceptsTrailers = lines.facts.acceptsTrailers
    head.present = lines.facts.present
    if !lines.facts.nominations.isEmpty { lines.facts.nominations.mark(head.list.mutableFields, base) }
  }

  /// What holds of the response as a whole.
  @inline(__always)
  private func finish(_ base: UnsafeRawPointer, _ head: ResponseHead, _ method: Method) throws(HeadError) {
    let decision = try lines.facts.framing.response(head.version, status: head.status, to: method)
    head.framing = decision.framing
    head.announcedLength = lines.facts.framing.length
    head.persists = lines.facts.persists(head.version) && decision.isTrusted && decision.framing != .untilClose
    head.upgrade = lines.facts.upgrade(head.version)
    head.present = lines.facts.present
    if !lines.facts.nominations.isEmpty { lines.facts.nominations.mark(head.list.mutableFields, base) }
  }

  /// False when there are no bytes behind the empty lines yet.
  @inline(__always)
  private mutating func skipEmptyLines(_ bytes: UnsafeRawBufferPointer) throws(HeadError) -> Bool {
    guard skipped < bytes.count, let base = bytes.baseAddress else { return false }
    guard lines.lineStart == 0 else { return true }
    while ByteScan.byte(base, skipped) <= 0x0D {
      guard let next = try FieldLines.lineEnd(base, skipped, bytes.count, .head) else { return false }
      guard next <= Self.leadingBytes else { throw .badRequestLine }
      skipped = next
      guard skipped < bytes.count else { return false }
    }
    return true
  }

  /// Whether a line that was found unfinished before may have its end now.
  @inline(__always)
  private mutating func holdsLine(
    _ base: UnsafeRawPointer, _ available: Int, _ limits: HeadLimits
  ) throws(HeadError) -> Bool {
    guard searched > lines.lineStart else { return true }
    guard searched < available else { return false }
    if memchr(base + searched, 0x0A, available - searched) != nil { return true }
    _ = try awaitMore(available, limits)
    return false
  }

  /// The line at hand is not all there: refuses it when it is too long already.
  private mutating func awaitMore(_ available: Int, _ limits: HeadLimits) throws(HeadError) -> HeadOutcome {
    if available - lines.lineStart > limits.lineBytes {
      throw lines.lineStart == 0 ? .requestLineTooLong : .fieldTooLarge
    }
    if available > limits.headBytes { throw .headTooLarge }
    searched = available
    return .incomplete
  }

  /// Leaves of a refused request what the access log tells: its first line, when that was read, and the bytes
  /// of the lines read.
  private func keepRequestLine(_ bytes: UnsafeRawBufferPointer, _ head: RequestHead) {
    let (method, methodRange, target, version) = (head.method, head.methodRange, head.target, head.version)
    head.reset()
    let read = lines.lineStart
    guard read > 0, let base = bytes.baseAddress, skipped + read <= bytes.count else { return }
    head.bytes.append(UnsafeRawBufferPointer(start: base + skipped, count: read))
    head.method = method
    head.methodRange = methodRange
    head.target = target
    head.version = version
  }
}
