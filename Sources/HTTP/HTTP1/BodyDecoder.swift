internal import Bytes
internal import Glibc

/// Why the decoder refused a body. The proxy closes the connection that sent the body.
public enum BodyError: Error, Sendable, Equatable {
  /// The size is empty, not hexadecimal, above 16 digits or 2^63-1, or followed by whitespace without an extension.
  case badChunkSize
  case chunkExtensionTooLong
  case bareLineFeed, bareCarriageReturn, controlCharacter
  /// After the chunk data come other bytes than its line end.
  case badChunkEnd
  case trailersTooLarge
  case badTrailer(HeadError)

  /// The error as one line for the log.
  public var reason: StaticString {
    switch self {
    case .badChunkSize: "a chunk size that is not 1 to 16 hexadecimal digits of at most 2^63-1"
    case .chunkExtensionTooLong: "chunk extensions longer than 256 bytes"
    case .bareLineFeed: "a line feed without a carriage return in chunked framing"
    case .bareCarriageReturn: "a carriage return without a line feed in chunked framing"
    case .controlCharacter: "a control character in a chunk extension"
    case .badChunkEnd: "chunk data longer than the chunk size"
    case .trailersTooLarge: "trailers larger than 8 KiB or more than 100"
    case .badTrailer(let error): error.reason
    }
  }
}

/// What the caller must do with the input. Positions are in the input of the call that returned the step.
public enum BodyStep: Sendable, Equatable {
  /// Remove `consumed` bytes from the front, and call again when more bytes have arrived.
  case needsMore(consumed: Int)
  /// Forward `count` bytes from `start`; then remove `consumed` from the front and call again, even without input.
  case data(start: Int, count: Int, consumed: Int)
  /// The body is complete. Remove `consumed` bytes from the front; what follows is another message.
  case end(consumed: Int)
  case failed(BodyError)
}

/// What it means when the transport ends in the middle of a body.
public enum BodyEndOfStream: Sendable, Equatable {
  case complete, truncated
}

/// Finds the body in the bytes after a head (RFC 9112 §6, §7.1). A pure state machine that stores no body bytes.
public struct BodyDecoder: Sendable {
  /// The most bytes after the size in a chunk-size line. The decoder drops extensions: they belong to one connection.
  private static var extensionBytes: Int { 256 }

  private enum State {
    case length(UInt64)
    case untilClose
    case size(UInt64, digits: Int)
    /// Whitespace after the size. Only an extension may follow (BWS of RFC 9112 §7.1.1).
    case blank(UInt64, length: Int)
    case chunkExtension(UInt64, length: Int)
    case sizeLineFeed(UInt64)
    case chunk(UInt64)
    case chunkReturn
    case chunkLineFeed
    case trailers
    case ended
    case failed(BodyError)
  }

  private var state: State
  private var trailerBytes: [UInt8] = []
  /// The trailer fields that RFC 9110 §6.5.1 allows; nil before the end of the body and when there are no trailers.
  public private(set) var trailers: Trailers?

  public init(_ framing: BodyFraming) {
    switch framing {
    case .none: state = .ended
    case .length(let length): state = length == 0 ? .ended : .length(length)
    case .chunked: state = .size(0, digits: 0)
    case .untilClose: state = .untilClose
    }
  }

  /// Whether the body is complete.
  public var isEnded: Bool {
    if case .ended = state { true } else { false }
  }

  /// Returns whether the body is complete if the transport ends here.
  public func atEndOfStream() -> BodyEndOfStream {
    switch state {
    case .untilClose, .ended: .complete
    default: .truncated
    }
  }

  /// Decodes one step. An error is final.
  public mutating func next(_ input: UnsafeRawBufferPointer) -> BodyStep {
    switch state {
    case .ended: return .end(consumed: 0)
    case .failed(let error): return .failed(error)
    case .length(let remaining):
      guard input.count > 0 else { return .needsMore(consumed: 0) }
      let count = remaining < UInt64(input.count) ? Int(remaining) : input.count
      let rest = remaining - UInt64(count)
      state = rest == 0 ? .ended : .length(rest)
      return .data(start: 0, count: count, consumed: count)
    case .untilClose:
      guard input.count > 0 else { return .needsMore(consumed: 0) }
      return .data(start: 0, count: input.count, consumed: input.count)
    default:
      guard let base = input.baseAddress else { return .needsMore(consumed: 0) }
      do throws(BodyError) {
        return try chunked(base, input.count)
      } catch {
        state = .failed(error)
        trailerBytes = []
        return .failed(error)
      }
    }
  }

  private mutating func chunked(_ base: UnsafeRawPointer, _ count: Int) throws(BodyError) -> BodyStep {
    var at = 0
    while at < count {
      let byte = ByteScan.byte(base, at)
      switch state {
      case .size(let size, let digits):
        if let digit = ASCII.hexValue(byte) {
          guard digits < 16, size < 1 << 59 else { throw .badChunkSize }
          state = .size(size << 4 | UInt64(digit), digits: digits + 1)
        } else {
          guard digits > 0 else { throw .badChunkSize }
          switch byte {
          case 0x0D: state = .sizeLineFeed(size)
          case 0x3B: state = .chunkExtension(size, length: 1)
          case 0x20, 0x09: state = .blank(size, length: 1)
          case 0x0A: throw .bareLineFeed
          default: throw .badChunkSize
          }
        }
      case .blank(let size, let length):
        guard length < Self.extensionBytes else { throw .chunkExtensionTooLong }
        switch byte {
        case 0x20, 0x09: state = .blank(size, length: length + 1)
        case 0x3B: state = .chunkExtension(size, length: length + 1)
        default: throw .badChunkSize
        }
      case .chunkExtension(let size, let length):
        switch byte {
        case 0x0D: state = .sizeLineFeed(size)
        case 0x0A: throw .bareLineFeed
        case 0x09, 0x20...0x7E, 0x80...0xFF:
          guard length < Self.extensionBytes else { throw .chunkExtensionTooLong }
          state = .chunkExtension(size, length: length + 1)
        default: throw .controlCharacter
        }
      case .sizeLineFeed(let size):
        guard byte == 0x0A else { throw .bareCarriageReturn }
        state = size == 0 ? .trailers : .chunk(size)
      case .chunk(let remaining):
        let available = count - at
        let length = remaining < UInt64(available) ? Int(remaining) : available
        let rest = remaining - UInt64(length)
        state = rest == 0 ? .chunkReturn : .chunk(rest)
        return .data(start: at, count: length, consumed: at + length)
      case .chunkReturn:
        guard byte == 0x0D else { throw byte == 0x0A ? .bareLineFeed : .badChunkEnd }
        state = .chunkLineFeed
      case .chunkLineFeed:
        guard byte == 0x0A else { throw .bareCarriageReturn }
        state = .size(0, digits: 0)
      case .trailers:
        return try trailerLine(base, at, count)
      case .length, .untilClose, .ended, .failed:
        return .needsMore(consumed: at)
      }
      at += 1
    }
    return .needsMore(consumed: count)
  }

  /// Collects the trailer section line by line, and parses it when it is complete. Trailers are rare and small.
  private mutating func trailerLine(
    _ base: UnsafeRawPointer, _ from: Int, _ count: Int
  ) throws(BodyError) -> BodyStep {
    var at = from
    while at < count {
      let lineFeed = memchr(base + at, 0x0A, count - at)
      let next = lineFeed.map { UnsafeRawPointer($0) - base + 1 } ?? count
      guard trailerBytes.count + next - at <= Trailers.sectionBytes else { throw .trailersTooLarge }
      trailerBytes.append(contentsOf: UnsafeRawBufferPointer(start: base + at, count: next - at))
      at = next
      guard lineFeed != nil else { break }
      let length = trailerBytes.count
      guard length > 1, trailerBytes[length - 2] == 0x0D else { throw .bareLineFeed }
      if length == 2 || trailerBytes[length - 3] == 0x0A {
        trailers = try Trailers(trailerBytes)
        trailerBytes = []
        state = .ended
        return .end(consumed: at)
      }
    }
    return .needsMore(consumed: at)
  }
}

/// The parsed trailer fields of a chunked body (RFC 9112 §7.1.2), without the fields that trailers do not allow.
public struct Trailers: Sendable {
  static var sectionBytes: Int { 8192 }
  private static var limits: HeadLimits { HeadLimits(lineBytes: sectionBytes, headBytes: sectionBytes, fields: 100) }

  /// The section as sent; the fields' ranges are positions in it.
  public let bytes: [UInt8]
  public let fields: [Field]

  /// Parses `section`, which ends with its empty line. Returns nil when no field is left.
  init?(_ section: [UInt8]) throws(BodyError) {
    var list = TrivialList<Field>(), lineStart = 0
    let fault = section.withUnsafeBytes { section -> HeadError? in
      guard let base = section.baseAddress else { return nil }
      do throws(HeadError) {
        _ = try FieldLines.read(
          base, section.count, lineStart: &lineStart, section: .trailer, limits: Self.limits, into: &list)
        try MessageFacts.trailers(&list, base, Self.limits)
        return nil
      } catch {
        return error
      }
    }
    if let fault { throw fault == .tooManyFields ? .trailersTooLarge : .badTrailer(fault) }
    if list.count == 0 { return nil }
    bytes = section
    fields = Array(list.elements)
  }

  private init(bytes: [UInt8], fields: [Field]) {
    self.bytes = bytes
    self.fields = fields
  }

  /// Creates the trailers of `first` followed by these. Names are tokens, and no value has a control character.
  public init(adding lines: [(name: [UInt8], value: [UInt8])], to first: Trailers?) {
    var bytes = first?.bytes ?? [], fields = first?.fields ?? []
    for line in lines {
      let name = ByteRange(start: bytes.count, count: line.name.count)
      bytes += line.name + [0x3A, 0x20]
      let value = ByteRange(start: bytes.count, count: line.value.count)
      bytes += line.value + [0x0D, 0x0A]
      fields.append(Field(name: name, value: value, id: .other, isHopByHop: false))
    }
    self.init(bytes: bytes, fields: fields)
  }

  /// Returns the fields for which `isRemoved` is false, or nil when no field is left.
  public func removing(where isRemoved: (Field, UnsafeRawBufferPointer) -> Bool) -> Trailers? {
    let kept = bytes.withUnsafeBytes { bytes in fields.filter { !isRemoved($0, bytes) } }
    return kept.isEmpty ? nil : Trailers(bytes: bytes, fields: kept)
  }
}
