import Bytes
import HTTP
import Observability
import Signature
package import Traffic
import Transport
package import Upstream

/// Sends a request's body to an upstream, collected first or streamed, from memory or from a file. It sends no faster
/// than the upstream takes the body.
package final class RequestBodySender {
  /// The number of body bytes read from the file.
  private var fileOffset: UInt64 = 0
  /// Whether a thread reads the next piece.
  private var isReading = false
  /// The number of the sending in progress, so that a piece that was read for a former attempt goes nowhere.
  private var turn: UInt64 = 0
  /// Whether the request has a body of sallyport's own, so that the client's isn't sent.
  private var sendsOwnBody = false
  /// What was sent of a streamed body; nil: it isn't kept, or no longer.
  private var copy: SentBody?

  /// The most bytes of a streamed body that may wait for an upstream.
  private static let watermark = 128 * 1024
  /// Less than the watermark, so that the bytes which one piece leaves waiting get a deadline with the next piece.
  private static let filePiece = 64 * 1024
  /// Memory that one kept body may take if `client_body_buffer_size` isn't set.
  static let adaptiveAllowance = 1 << 20

  /// Decides where the body goes. The result keeps the body until it is complete; with nil, the attempt begins at once.
  /// `isChallenged`: the upstream may send a challenge, and the body then goes out a second time.
  package func plan(_ exchange: Exchange, _ pass: CompiledPass, isChallenged: Bool) -> RequestBody? {
    let framing = exchange.head.framing
    if case .none = exchange.body.state, framing == .none { return nil }
    guard let stream = exchange.stream else { return nil }
    let files = exchange.location.settings.bodyFiles
    // As in nginx, a body that the upstream doesn't get is read all the same, for variables and files.
    let isRead = pass.settings.request.passesBody || pass.body != nil || files?.isForEachBody ?? false
    // An earlier handler collected the body, and a named error page forwards it.
    if case .collected = exchange.body.state, isRead { return nil }
    let hasBody = framing != .none && exchange.redirection.keepsBody && !stream.isBodyRead
    if framing == .length(0), exchange.redirection.keepsBody, let files, files.isForEachBody {
      return Self.storage(for: exchange)
    }
    guard hasBody, isRead else {
      if hasBody { stream.discardBody() }
      exchange.setBody(.none)
      return nil
    }
    let allowance = exchange.location.limits.bodyBufferSize
    // HTTP/1.0 and some others need a length, so a chunked body is collected first. A body that fits its allowance is collected so
    // that it can be sent again with credentials after a challenge.
    var isKept = pass.settings.buffers.collectsRequests || (framing == .chunked && pass.settings.version.needsLength)
    isKept = isKept || pass.body != nil || !pass.settings.request.passesBody
    if isChallenged, case .length(let length) = framing {
      isKept = isKept || length <= UInt64(max(0, allowance ?? Self.adaptiveAllowance))
    }
    guard isKept else {
      exchange.setBody(.held)
      return nil
    }
    return Self.storage(for: exchange)
  }

  /// An empty body, in which the exchange can collect that of its request.
  package static func storage(for exchange: Exchange) -> RequestBody {
    let (files, pool) = (exchange.location.settings.bodyFiles, exchange.worker.shared.pool)
    let kept =
      exchange.location.limits.bodyBufferSize.map { RequestBody(allowance: $0, files: files, pool: pool) }
      ?? RequestBody(allowance: adaptiveAllowance, gauge: exchange.worker.bodies, files: files, pool: pool)
    if exchange.location.content.digestsBodies { kept.beginDigests([.sha256]) }
    return kept
  }

  /// Starts to send the body, after the request's head.
  package func begin(_ exchange: Exchange, _ stream: UpstreamStream, _ own: OwnBody?) {
    sendsOwnBody = own != nil
    turn &+= 1
    isReading = false
    if let own {
      if case .text(let text) = own, !text.isEmpty { text.withUnsafeBytes { stream.send(body: $0) } }
      return stream.requestDidEnd()
    }
    switch exchange.body.state {
    case .streaming where copy != nil, .streamed where copy != nil: sendAgain(exchange, stream)
    case .none, .streamed: stream.requestDidEnd()
    case .collected(let kept):
      if kept.isInFile {
        fileOffset = 0
        sendFile(kept, exchange, stream)
      } else {
        stream.send(body: kept.memory.readable)
        stream.requestDidEnd()
      }
    case .held:
      if stream.mayBeRefused { copy = SentBody(exchange.worker.bodies) }
      exchange.streamBody()
    case .collecting, .streaming: break
    }
  }

  /// Sends bytes of a streamed body or of a tunnel.
  package func send(_ bytes: UnsafeRawBufferPointer, _ exchange: Exchange, _ stream: UpstreamStream?) {
    guard let stream else { return }
    if let copy, !copy.append(bytes) { self.copy = nil }
    stream.send(body: bytes)
    if stream.waitingBytes > Self.watermark { exchange.stream?.pauseBody() }
  }

  // MARK: A streamed body that an upstream has not processed

  /// Whether all that was sent of a streamed body is at hand, so that an upstream which has refused it unprocessed
  /// (RFC 9113 §8.7) may get it again.
  var keepsStreamedBody: Bool { copy != nil }

  /// The attempt has failed, and another one follows. Meanwhile the client sends no more.
  func willSendAgain(_ exchange: Exchange) {
    if case .streaming = exchange.body.state { exchange.stream?.pauseBody() }
  }

  /// The client has ended a streamed body with these trailers.
  func noteEnd(_ trailers: Trailers?) { copy?.trailers = trailers }

  /// No upstream can refuse the body unprocessed any more.
  func dropCopy() { if copy != nil { copy = nil } }

  private func sendAgain(_ exchange: Exchange, _ stream: UpstreamStream) {
    guard let copy else { return }
    if !copy.bytes.isEmpty { stream.send(body: copy.bytes.readable) }
    if case .streamed = exchange.body.state { return stream.requestDidEnd(copy.trailers) }
    exchange.stream?.resumeBody()
  }

  func upstreamDidDrain(_ exchange: Exchange, _ stream: UpstreamStream) {
    if sendsOwnBody { return }
    switch exchange.body.state {
    case .collected(let kept) where kept.isInFile: sendFile(kept, exchange, stream)
    case .streaming: exchange.stream?.resumeBody()
    default: break
    }
  }

  /// Sends the next piece of a body in a file, as the upstream takes them. A thread of the pool reads it.
  private func sendFile(_ kept: RequestBody, _ exchange: Exchange, _ stream: UpstreamStream) {
    guard !isReading, stream.isOpen, stream.waitingBytes < Self.watermark, let file = kept.file else { return }
    guard fileOffset < kept.count else { return stream.requestDidEnd() }
    isReading = true
    let (offset, turn) = (fileOffset, turn)
    PendingWork.run(.bodies, for: exchange) {
      file.piece(at: offset, Self.filePiece)
    } _: { [self] exchange, piece in
      guard turn == self.turn else { return }
      isReading = false
      if stream.isOpen { send(piece, of: kept, exchange, stream) }
    }
  }

  private func send(_ piece: BodyPiece, of kept: RequestBody, _ exchange: Exchange, _ stream: UpstreamStream) {
    guard !piece.bytes.isEmpty else {
      exchange.log(.crit, "a request body can't be read from its temporary file")
      return exchange.failDuringBody(ErrorResponse(500))
    }
    fileOffset &+= UInt64(piece.bytes.count)
    stream.send(body: piece.bytes.readable)
    stream.flush()
    sendFile(kept, exchange, stream)
  }
}

/// The beginning of a streamed body, until the upstream responds, or more has come than is kept.
private final class SentBody {
  private(set) var bytes = ByteBuffer()
  var trailers: Trailers?
  private let gauge: BodyMemoryBudget
  /// As much as an upstream takes before it says what it takes (RFC 9113 §6.9.2).
  private static let allowance = 64 * 1024

  init(_ gauge: BodyMemoryBudget) { self.gauge = gauge }

  deinit { gauge.giveBack(bytes.count) }

  /// Returns false if that is more than may be kept.
  func append(_ more: UnsafeRawBufferPointer) -> Bool {
    guard bytes.count + more.count <= gauge.bound(Self.allowance) else { return false }
    bytes.append(more)
    gauge.take(more.count)
    return true
  }
}
