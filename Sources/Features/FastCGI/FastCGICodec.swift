import Bytes
import CGI
import HTTP
import Upstream

extension FastCGI {
  /// Connections that the server closes after each response, and those that it was asked to leave open. Neither serves for the
  /// other.
  private static let closingWire = wire { FastCGICodec(keepsConnection: false) }
  private static let keptWire = wire { FastCGICodec(keepsConnection: true) }

  /// As in nginx, a body of unknown length is collected first: programs read as much as CONTENT_LENGTH says.
  private static func wire(_ codec: @escaping @Sendable () -> WireCodec) -> UpstreamWire {
    UpstreamWire("FastCGI", end: .told, needsLength: true, makeCodec: codec)
  }

  static func wire(keepsConnection: Bool) -> UpstreamWire { keepsConnection ? keptWire : closingWire }
}

/// Requests and responses of FastCGI, one after another on a connection.
final class FastCGICodec: WireCodec {
  private let kind: ProgramProtocol
  private let keepsConnection: Bool
  private var reader = FastCGIReader()
  private var parser = HeadParser()
  private var method = HTTP.Method.get
  private var hasHead = false
  /// STDOUT as far as it came before the head was whole, because records cut a head anywhere; then the begin of the body that
  /// came with it.
  private var held = ByteBuffer()
  private var hasToldHeld = false

  init(keepsConnection: Bool) {
    self.keepsConnection = keepsConnection
    kind = .fastCGI(keepsConnection: keepsConnection)
  }

  // MARK: The request

  override func begin(_ head: OutgoingRequestHead, _ method: HTTP.Method, to output: inout ByteBuffer) {
    self.method = method
    reader = FastCGIReader()
    parser = HeadParser()
    hasHead = false
    hasToldHeld = false
    held.release()
    output.append(head.parameters.readable)
  }

  override func append(body bytes: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    kind.appendBody(bytes, to: &output)
  }

  override func appendEnd(to output: inout ByteBuffer) { kind.appendBodyEnd(to: &output) }

  // MARK: The response

  override func next(
    _ input: UnsafeRawBufferPointer, limits: HeadLimits, into head: ResponseHead
  ) -> (event: WireEvent, consumed: Int) {
    if hasHead, !held.isEmpty {
      // The bytes that the last call has told may only go now.
      if !hasToldHeld {
        hasToldHeld = true
        return (.body(held.readable), 0)
      }
      held.release()
    }
    var at = 0
    while true {
      let rest = UnsafeRawBufferPointer(rebasing: input[at...])
      switch reader.next(rest) {
      case .needsMore(let consumed): return (.needsMore, at + consumed)
      case .stdout(let start, let count, let consumed):
        let bytes = rest[ByteRange(start: start, count: count)]
        at += consumed
        if hasHead { return (.body(bytes), at) }
        held.append(bytes)
        switch parser.response(
          held.readable, limits: limits, requestMethod: method, startsWith: kind.responseStart, into: head)
        {
        case .incomplete: continue
        case .failed(let error): return (.failed(.head(error)), at)
        case .complete(let length):
          held.consume(length)
          hasHead = true
          return (.head, at)
        }
      case .stderr(let start, let count, let consumed):
        return (.text(rest[ByteRange(start: start, count: count)]), at + consumed)
      case .stdoutEnd(let consumed):
        at += consumed
        guard hasHead else { return (.failed(.bytes("prematurely closed FastCGI stdout")), at) }
        if !keepsConnection { return (.end(mayServeAgain: false), at) }
      case .end(let end, let consumed): return (event(of: end), at + consumed)
      case .failed(let fault): return (.failed(.bytes("sent a broken FastCGI response: \(fault)")), at)
      }
    }
  }

  private func event(of end: FastCGIEnd) -> WireEvent {
    switch end.protocolStatus {
    case .complete:
      hasHead ? .end(mayServeAgain: keepsConnection) : .failed(.bytes("prematurely closed FastCGI request"))
    case .cannotMultiplex: .failed(.bytes("refused the FastCGI request: it takes one at a time"))
    case .overloaded: .failed(.bytes("refused the FastCGI request: it is overloaded"))
    case .unknownRole: .failed(.bytes("refused the FastCGI request: it is no responder"))
    case .other(let status): .failed(.bytes("ended the FastCGI request with protocol status \(status)"))
    }
  }

  override func faultAtEnd() -> WireFault? { reader.faultAtEndOfStream().map { .bytes("\($0)") } }
}
