import Bytes
import HTTP

/// The body of the request in progress: decoded, handed to the exchange, paused, and discarded.
extension HTTP1Connection {
  /// Returns true if the exchange still takes bytes of the body.
  package func takeBody(_ exchange: Exchange) -> Bool {
    switch decoder.next(input.readable) {
    case .needsMore(let consumed):
      input.consume(consumed)
      // Sizes and extensions of chunks, and trailers, carry nothing of the body.
      if consumed > 0, !BodyPace.isKept(by: exchange) { return false }
      stream.watchBody(exchange.bodyTimeout)
      return false
    case .data(let start, let count, let consumed):
      let bytes = input.readable[ByteRange(start: start, count: count)]
      // The connection consumes the bytes first, because the exchange may end or discard the rest of the body. The
      // bytes stay valid until the next read.
      input.consume(consumed)
      exchange.requestBody(bytes)
      return phase == .exchanging && stream.exchange === exchange
    case .end(let consumed):
      input.consume(consumed)
      isBodyPaused = true
      stream.watchBody(nil)
      exchange.requestBodyDidEnd(trailers: decoder.trailers)
      return false
    case .failed(let error):
      isBodyPaused = true
      exchange.requestBodyIsInvalid(error)
      return false
    }
  }

  package var isBodyRead: Bool { decoder.isEnded }

  package func pauseBody() { isBodyPaused = true }

  package func resumeBody() {
    guard isBodyPaused, phase == .exchanging || phase == .tunnelling else { return }
    isBodyPaused = false
    pump()
  }

  package func discardBody() {
    isBodyPaused = true
    while !decoder.isEnded {
      switch decoder.next(input.readable) {
      case .data(_, _, let consumed): input.consume(consumed)
      case .end(let consumed), .needsMore(let consumed): return input.consume(consumed)
      case .failed: return
      }
    }
  }
}
