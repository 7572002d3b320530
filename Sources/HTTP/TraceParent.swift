/// The field traceparent of W3C Trace Context, level 1: the trace that a request belongs to, and the caller's span.
public struct TraceParent: Equatable, Sendable {
  /// 32 and 16 digits in lower case, not all zeros.
  public let traceID: [UInt8]
  public let parentID: [UInt8]
  /// Whether the caller records the trace.
  public let isSampled: Bool

  /// Parses the value of the one field of that name. Returns nil for a value that must be ignored (§3.2.2 and §4.3): a
  /// wrong length, another alphabet, zeros, or version ff. Of a version above 00, what follows the flags is ignored.
  public init?(_ bytes: UnsafeRawBufferPointer) {
    // version-traceid-parentid-flags: 2, 32, 16 and 2 digits.
    guard bytes.count >= 55, bytes[2] == 0x2D, bytes[35] == 0x2D, bytes[52] == 0x2D else { return nil }
    guard let version = Self.octet(bytes, at: 0), let flags = Self.octet(bytes, at: 53), version != 0xFF else {
      return nil
    }
    guard bytes.count == 55 || version > 0 && bytes[55] == 0x2D else { return nil }
    // Several fields of the name come joined by commas: no version has one within a value.
    guard !bytes.contains(0x2C) else { return nil }
    guard let traceID = Self.digits(bytes[3..<35]), let parentID = Self.digits(bytes[36..<52]) else { return nil }
    self.traceID = traceID
    self.parentID = parentID
    isSampled = flags & 1 == 1
  }

  /// Makes the field of a span of sallyport's own. `span`: 16 digits. `trace`: 32 digits, for a new trace.
  public init(continuing former: TraceParent?, trace: [UInt8], span: [UInt8]) {
    traceID = former?.traceID ?? trace
    parentID = span
    // A new trace is offered for recording: an upstream that follows the flag would record nothing otherwise.
    isSampled = former?.isSampled ?? true
  }

  /// The value of the field, in version 00. Flags that version 00 doesn't define are zero (§3.2.2.5).
  public var value: [UInt8] {
    Array("00-".utf8) + traceID + [0x2D] + parentID + Array(isSampled ? "-01".utf8 : "-00".utf8)
  }

  private static func digits(_ text: Slice<UnsafeRawBufferPointer>) -> [UInt8]? {
    let isHex = text.allSatisfy { digit($0) != nil }
    return isHex && text.contains { $0 != 0x30 } ? Array(text) : nil
  }

  private static func octet(_ bytes: UnsafeRawBufferPointer, at place: Int) -> UInt8? {
    guard let high = digit(bytes[place]), let low = digit(bytes[place + 1]) else { return nil }
    return high << 4 | low
  }

  /// Lower case only, as the specification demands.
  private static func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x61...0x66: byte - 0x57
    default: nil
    }
  }
}
