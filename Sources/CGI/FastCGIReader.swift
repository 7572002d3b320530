/// Why a FastCGI server's bytes are no response. The connection is of no use then.
public enum FastCGIFault: Error, Sendable, Equatable, CustomStringConvertible {
  /// A record begins with this byte.
  case version(UInt8)
  /// A type of record that doesn't answer a request.
  case type(UInt8)
  /// A record of another request, or of the connection (0).
  case request(UInt16)
  /// END_REQUEST with so many bytes of content.
  case endLength(UInt16)
  /// STDOUT goes on behind the record that ended it.
  case stdoutAfterItsEnd
  /// Another byte behind END_REQUEST.
  case byteAfterEnd(UInt8)
  /// The connection ended within a record, or before STDOUT and the request had ended.
  case truncated

  public var description: String {
    switch self {
    case .version(let byte): "a record has version \(byte) of FastCGI, not 1"
    case .type(let byte): "a record has type \(byte), which is none of STDOUT (6), STDERR (7) and END_REQUEST (3)"
    case .request(let number): "a record belongs to request \(number), not to request 1"
    case .endLength(let count): "END_REQUEST has \(count) bytes, not 8"
    case .stdoutAfterItsEnd: "STDOUT goes on after its end"
    case .byteAfterEnd(let byte): "byte \(byte) follows END_REQUEST"
    case .truncated: "the connection ended before the response did"
    }
  }
}

/// How a FastCGI server ends a request.
public struct FastCGIEnd: Sendable, Equatable {
  public enum ProtocolStatus: Sendable, Equatable {
    case complete
    /// The server takes one request on a connection at a time, and thinks that it got two.
    case cannotMultiplex
    case overloaded
    case unknownRole
    case other(UInt8)

    init(_ byte: UInt8) {
      switch byte {
      case 0: self = .complete
      case 1: self = .cannotMultiplex
      case 2: self = .overloaded
      case 3: self = .unknownRole
      default: self = .other(byte)
      }
    }
  }

  public let protocolStatus: ProtocolStatus
  /// The exit status of a program. nginx ignores it.
  public let appStatus: UInt32

  public init(protocolStatus: ProtocolStatus, appStatus: UInt32) {
    self.protocolStatus = protocolStatus
    self.appStatus = appStatus
  }
}

/// What the caller of `FastCGIReader` must do with the input. Positions are in the input of the call that returned the
/// step; the caller removes `consumed` bytes from the front.
public enum FastCGIStep: Sendable, Equatable {
  /// Call again when more bytes have arrived. All of the input is consumed.
  case needsMore(consumed: Int)
  /// `count` bytes of the response from `start`. Call again with the rest, as after the next two.
  case stdout(start: Int, count: Int, consumed: Int)
  /// `count` bytes for the log from `start`.
  case stderr(start: Int, count: Int, consumed: Int)
  /// The response has ended. Comes once at most: a server may send END_REQUEST alone.
  case stdoutEnd(consumed: Int)
  /// The request has ended, and its last record is consumed, padding included. Nothing may follow before the next
  /// request.
  case end(FastCGIEnd, consumed: Int)
  case failed(FastCGIFault)
}

/// Finds one response in the records that a FastCGI server sends. A pure state machine that stores no content.
///
///     header ──► content ──► padding ──► header │ ended
///
/// Each byte of a header is judged when it arrives, so that whatever is not FastCGI fails at its first byte. The next
/// request on the connection gets a new reader.
public struct FastCGIReader: Sendable {
  private enum Kind: UInt8 {
    case end = 3
    case stdout = 6
    case stderr = 7
  }

  private enum State {
    /// So many bytes of the header have come.
    case header(Int)
    case content
    case padding
    case ended
    case failed(FastCGIFault)
  }

  private var state = State.header(0)
  private var kind = Kind.stdout
  /// The high byte of the number that is being read.
  private var high: UInt8 = 0
  /// Bytes of the record's content and padding that are still to come.
  private var contentLeft: UInt16 = 0
  private var paddingLeft: UInt8 = 0
  /// The content of END_REQUEST.
  private var endBody: UInt64 = 0
  private var isStdoutClosed = false

  public init() {}

  /// Whether the request has ended, so that the connection may carry another one.
  public var isEnded: Bool { if case .ended = state { true } else { false } }

  /// What is wrong if the connection ends here. nil: nothing is, because STDOUT or the request has ended.
  public func faultAtEndOfStream() -> FastCGIFault? {
    switch state {
    case .ended: nil
    case .header(0) where isStdoutClosed: nil
    case .failed(let fault): fault
    case .header, .content, .padding: .truncated
    }
  }

  /// Reads one step. A fault is final.
  public mutating func next(_ input: UnsafeRawBufferPointer) -> FastCGIStep {
    var at = 0
    while true {
      switch state {
      case .header(let position):
        guard at < input.count else { return .needsMore(consumed: at) }
        if let fault = readHeader(input[at], at: position) { return fail(fault) }
        at += 1
        if case .content = state, kind == .stdout, contentLeft == 0, !isStdoutClosed {
          isStdoutClosed = true
          return .stdoutEnd(consumed: at)
        }
      case .content:
        guard contentLeft > 0 else {
          state = .padding
          continue
        }
        guard at < input.count else { return .needsMore(consumed: at) }
        if kind == .end {
          endBody = endBody << 8 | UInt64(input[at])
          contentLeft -= 1
          at += 1
          continue
        }
        let count = min(Int(contentLeft), input.count - at)
        contentLeft -= UInt16(count)
        return kind == .stdout
          ? .stdout(start: at, count: count, consumed: at + count)
          : .stderr(start: at, count: count, consumed: at + count)
      case .padding:
        let count = min(Int(paddingLeft), input.count - at)
        paddingLeft -= UInt8(count)
        at += count
        guard paddingLeft == 0 else { return .needsMore(consumed: at) }
        guard kind == .end else {
          state = .header(0)
          continue
        }
        state = .ended
        let end = FastCGIEnd(
          protocolStatus: FastCGIEnd.ProtocolStatus(UInt8(truncatingIfNeeded: endBody >> 24)),
          appStatus: UInt32(truncatingIfNeeded: endBody >> 32))
        return .end(end, consumed: at)
      case .ended: return input.count > 0 ? fail(.byteAfterEnd(input[0])) : .needsMore(consumed: 0)
      case .failed(let fault): return .failed(fault)
      }
    }
  }

  private mutating func readHeader(_ byte: UInt8, at position: Int) -> FastCGIFault? {
    let number = UInt16(high) << 8 | UInt16(byte)
    state = .header(position + 1)
    switch position {
    case 0: if byte != FastCGIRecord.version { return .version(byte) }
    case 1:
      guard let known = Kind(rawValue: byte) else { return .type(byte) }
      kind = known
    case 2, 4: high = byte
    case 3: if number != FastCGIRecord.request { return .request(number) }
    case 5:
      contentLeft = number
      if kind == .end, number != 8 { return .endLength(number) }
      if kind == .stdout, number > 0, isStdoutClosed { return .stdoutAfterItsEnd }
    case 6: paddingLeft = byte
    // The last byte is reserved.
    default: state = .content
    }
    return nil
  }

  private mutating func fail(_ fault: FastCGIFault) -> FastCGIStep {
    state = .failed(fault)
    return .failed(fault)
  }
}
