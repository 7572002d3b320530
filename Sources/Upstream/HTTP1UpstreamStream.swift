import Bytes
import HTTP
import Transport

/// One attempt's request and response as HTTP/1 carries them. Only this class encodes and frames HTTP/1 for upstreams.
final class HTTP1UpstreamStream: SerialUpstreamStream {
  // The request
  private var method = HTTP.Method.get, requestFraming = BodyFraming.none
  // The response
  private var parser = HeadParser(), decoder = BodyDecoder(.none)

  override func expectHead() { parser = HeadParser() }

  // MARK: The request

  override func send(
    head: OutgoingRequestHead, _ version: UpstreamVersion, _ method: HTTP.Method, scratch: inout ByteBuffer
  ) {
    self.method = method
    requestFraming = head.framing
    scratch.removeAll()
    let isOld = if case .http10 = version { true } else { false }
    HTTP1Encoder.request(head, isOld ? .http10 : .http11, to: &scratch)
    write(scratch.readable)
  }

  /// Sends bytes of the request's body.
  override func send(body bytes: UnsafeRawBufferPointer) {
    guard requestFraming == .chunked, phase != .tunnel else { return write(bytes) }
    guard !bytes.isEmpty else { return }
    var line = ByteBuffer(capacity: 20)
    ChunkedWriter.append(size: bytes.count, to: &line)
    write(line.readable)
    write(bytes)
    line.removeAll()
    ChunkedWriter.endChunk(to: &line)
    write(line.readable)
  }

  /// Ends the request and starts the wait for the response. Trailers go out only with chunked framing.
  override func requestDidEnd(_ trailers: Trailers? = nil) {
    if requestFraming == .chunked {
      var end = ByteBuffer(capacity: 64)
      ChunkedWriter.lastChunk(trailers, to: &end)
      write(end.readable)
    }
    requestIsWritten()
  }

  // MARK: The response

  override func consumeInput() -> Bool {
    while !input.isEmpty {
      switch phase {
      case .awaitingHead:
        // A body may follow that needs more input. Without another read now, no edge would announce that input.
        guard consumeHead() else { return phase == .awaitingHead || phase == .readingBody }
      case .readingBody: guard consumeBody() else { return phase == .readingBody }
      case .tunnel:
        observer?.tunnelBytes(input.readable)
        input.removeAll()
      case .waiting, .closed: return false
      }
      if isPaused { return false }
    }
    return phase != .closed && phase != .waiting
  }

  /// Returns true if a head was consumed and more input may follow.
  private func consumeHead() -> Bool { withObserver { consumeHead($0) } ?? false }

  private func consumeHead(_ observer: AttemptObserver) -> Bool {
    guard bytesSent > 0 else {
      fail(.unsolicitedBytes)
      return false
    }
    let head = observer.answer
    switch parser.response(input.readable, limits: limits, requestMethod: method, into: head) {
    case .incomplete: return false
    case .failed(let error):
      fail(.invalidHead(error))
      return false
    case .complete(let consumed):
      input.consume(consumed)
      parser = HeadParser()
      if head.isInterim { return takeInterim(head, observer) }
      decoder = BodyDecoder(head.framing)
      guard takeHead(head, observer) else { return phase == .tunnel }
      // An empty body ends without further input.
      return consumeBody()
    }
  }

  private func consumeBody() -> Bool {
    while phase == .readingBody {
      switch decoder.next(input.readable) {
      case .needsMore(let consumed):
        input.consume(consumed)
        return false
      case .data(let start, let count, let consumed):
        let bytes = input.readable[ByteRange(start: start, count: count)]
        withObserver { $0.attemptBody(bytes) }
        guard phase == .readingBody else { return false }
        input.consume(consumed)
      case .end(let consumed):
        input.consume(consumed)
        let mayFollow = withObserver { $0.answer.keepsAlive && $0.answer.framing != .untilClose } ?? false
        responseDidEnd(mayFollow: mayFollow, decoder.trailers)
        return false
      case .failed(let error):
        fail(.invalidBody("upstream sent an invalid body: \(error.reason)"))
        return false
      }
    }
    return false
  }

  override func isWholeAtEnd() -> Bool { decoder.atEndOfStream() == .complete }
}
