import Bytes
import HTTP
import Transport

/// One attempt's request and response in a protocol that a feature brings. The codec knows the bytes; this class holds the
/// response to its own Content-Length, and to what the request's method and the status allow.
final class WireUpstreamStream: SerialUpstreamStream {
  private let wire: UpstreamWire
  private let codec: WireCodec
  private var output = ByteBuffer()
  /// How many bytes of the body may follow; nil: as many as come.
  private var bodyLeft: UInt64?
  /// The response has no body, whatever the upstream sends.
  private var isBodiless = false
  /// The upstream has sent more than it announced, which is told once.
  private var hasExcess = false

  init(_ session: SerialUpstreamSession, _ transport: ByteStream, _ wire: UpstreamWire) {
    self.wire = wire
    codec = wire.makeCodec()
    super.init(session, transport)
  }

  // MARK: The request

  override func send(
    head: OutgoingRequestHead, _ version: UpstreamVersion, _ method: HTTP.Method, scratch: inout ByteBuffer
  ) {
    output.removeAll()
    codec.begin(head, method, to: &output)
    writeOutput()
  }

  override func send(body bytes: UnsafeRawBufferPointer) {
    if bytes.isEmpty { return }
    codec.append(body: bytes, to: &output)
    writeOutput()
  }

  override func requestDidEnd(_ trailers: Trailers? = nil) {
    codec.appendEnd(to: &output)
    writeOutput()
    output.release()
    requestIsWritten()
  }

  private func writeOutput() {
    if !output.isEmpty { write(output.readable) }
    output.removeAll()
  }

  // MARK: The response

  override func expectHead() {
    bodyLeft = nil
    isBodiless = false
    hasExcess = false
  }

  override func consumeInput() -> Bool { withObserver { consumeInput($0) } ?? false }

  private func consumeInput(_ observer: AttemptObserver) -> Bool {
    while !isPaused, isOpen {
      guard bytesSent > 0 || input.isEmpty else {
        fail(.unsolicitedBytes)
        return false
      }
      let (event, consumed) = codec.next(input.readable, limits: limits, into: observer.answer)
      switch event {
      case .needsMore:
        input.consume(consumed)
        return mayReadOn()
      case .head:
        input.consume(consumed)
        guard take(observer) else { return false }
      case .body(let bytes):
        // The bytes can be those of the input, which must not change before.
        guard take(bytes, observer), isOpen else { return false }
        input.consume(consumed)
      case .text(let bytes):
        guard observer.attemptDidHear(bytes, from: wire) || phase != .awaitingHead else {
          fail(.invalidStream("upstream reported an error"))
          return false
        }
        guard isOpen else { return false }
        input.consume(consumed)
      case .end(let mayServeAgain):
        input.consume(consumed)
        end(mayServeAgain: mayServeAgain)
        return false
      case .failed(let fault):
        fail(failure(fault))
        return false
      }
    }
    return false
  }

  /// Decides whether to wait for more, when all that has come is read.
  private func mayReadOn() -> Bool {
    let isOver = bodyLeft == 0 && (isBodiless || wire.end == .connection)
    if phase == .readingBody, isOver {
      // As in nginx: who asked with HEAD doesn't wait for a body that nobody gets.
      responseDidEnd(mayFollow: false)
      return false
    }
    guard input.count <= limits.headBytes + Self.readSize else {
      fail(failure(.bytes("sent \(input.count) bytes that are no response")))
      return false
    }
    return true
  }

  private func take(_ observer: AttemptObserver) -> Bool {
    let head = observer.answer
    guard phase == .awaitingHead else {
      fail(.invalidBody("upstream sent a second response"))
      return false
    }
    if head.isInterim { return takeInterim(head, observer) }
    guard head.status != 101 else {
      fail(.invalidStream("upstream switched protocols, which \(wire.name) can't"))
      return false
    }
    switch head.framing {
    case .none: (isBodiless, bodyLeft) = (true, 0)
    case .length(let length): bodyLeft = length
    case .chunked, .untilClose: bodyLeft = nil
    }
    return takeHead(head, observer)
  }

  /// Passes bytes of the body on, as far as the response has a place for them.
  private func take(_ bytes: UnsafeRawBufferPointer, _ observer: AttemptObserver) -> Bool {
    guard phase == .readingBody else {
      fail(.invalidStream("upstream sent a body before a head"))
      return false
    }
    guard let left = bodyLeft else {
      observer.attemptBody(bytes)
      return true
    }
    let count = Int(clamping: min(left, UInt64(bytes.count)))
    bodyLeft = left - UInt64(count)
    if count > 0 { observer.attemptBody(UnsafeRawBufferPointer(rebasing: bytes[..<count])) }
    if count < bytes.count, !isBodiless, !hasExcess, isOpen {
      hasExcess = true
      observer.attemptDidExceed()
    }
    return true
  }

  private func end(mayServeAgain: Bool) {
    guard phase == .readingBody else {
      return fail(.invalidStream("upstream ended the request without a response"))
    }
    guard bodyLeft ?? 0 == 0 else {
      return fail(.invalidBody("upstream sent less data than specified in \"Content-Length\" header"))
    }
    responseDidEnd(mayFollow: mayServeAgain && !hasExcess)
  }

  private func failure(_ fault: WireFault) -> AttemptFailure {
    switch (fault, phase) {
    case (.head(let error), _): .invalidHead(error)
    case (.bytes(let reason), .readingBody): .invalidBody("upstream \(reason)")
    case (.bytes(let reason), _): .invalidStream("upstream \(reason)")
    }
  }

  override func isWholeAtEnd() -> Bool { bodyLeft ?? 0 == 0 && codec.faultAtEnd() == nil }
}
