import Bytes
import HTTP

/// The frames of a client's HTTP/2 connection: makes exchanges of header blocks, counts what the client does too much of,
/// and passes the other events on to the connection and its streams.
final class ClientFrames: HTTP2Frames {
  // Not retained: the connection owns this object, and clears the reference when it closes.
  unowned(unsafe) var connection: HTTP2Connection?
  /// The limit that the client has exceeded.
  private(set) var exceeded: HTTP2Limit?
  private var block = HeaderBlock()
  /// Bytes of names and values that a header block may have before the connection ends.
  private var blockBound = Int.max
  /// The newest stream that the client has opened.
  private var newest: Int32 = 0
  /// Whether the header block that the client sends is of a stream that is over.
  private var isUnwantedBlock = false
  /// What the client's header blocks have caused so far: one for each block, and one for each kilobyte of its fields.
  private(set) var work = 0
  private var workAtTurn = 0

  /// Whether a header block has begun and not ended.
  var isInBlock: Bool { block.stream != nil }

  /// Calls the stream behind a pointer that `attach` got. The connection holds it until it is closed.
  @inline(__always)
  private func with<Value>(_ stream: Stream, _ body: (HTTP2Stream) -> Value) -> Value {
    Unmanaged<HTTP2Stream>.fromOpaque(stream)._withUnsafeGuaranteedRef { body($0) }
  }

  // MARK: Bounds

  /// From now on the client may cause the work of one turn, until `receive` stops.
  func beginTurn() { workAtTurn = work }

  override var hasEnough: Bool { work &- workAtTurn >= HTTP2Turn.work }

  /// Whether the client causes far more work than it does.
  var isStrained: Bool { connection.map { bounds.isStrained(now: $0.now) } ?? false }

  override func frameDidBegin(_ frame: HTTP2FrameHeader) -> Bool {
    guard let connection else { return false }
    let now = connection.now
    if isUnwanted(frame), !isWithin(bounds.takeUnwanted(length: frame.length, now: now)) { return false }
    return isWithin(bounds.take(frame.kind, length: frame.length, endsStream: frame.endsStream, now: now))
  }

  /// Whether a part of a head or body has no taker: the stream is closed, or its request is whole or was refused.
  private func isUnwanted(_ frame: HTTP2FrameHeader) -> Bool {
    switch frame.kind {
    case .data: return frame.stream.map { !with($0) { $0.takesInput } } ?? true
    case .headers:
      isUnwantedBlock = frame.id <= newest && frame.stream.map { !with($0) { $0.takesInput } } ?? true
      newest = max(newest, frame.id)
      return isUnwantedBlock
    case .continuation: return isUnwantedBlock
    default: return false
    }
  }

  private func isWithin(_ limit: HTTP2Limit?) -> Bool {
    if let limit { exceeded = limit }
    return limit == nil
  }

  override func frameWasInvalid(_ kind: HTTP2FrameKind, _ stream: Stream?, reason: String) {
    guard let connection else { return }
    if kind == .headers, stream == nil, connection.isFull { return connection.note(.concurrentStreams) }
    connection.log("client sent an invalid HTTP/2 frame: \(reason)")
  }

  override func resetDidGo(code: UInt32) {
    guard let connection else { return }
    switch HTTP2ErrorCode(rawValue: code) {
    // The response was whole, or the upstream or a timeout ended it.
    case .noError, .internalError, .cancel, .http11Required: break
    default: _ = isWithin(bounds.takeReset(now: connection.now))
    }
  }

  override func connectionDidBreak(reason: String) {
    if exceeded == nil { connection?.log("client sent invalid HTTP/2: \(reason)") }
  }

  // MARK: Header blocks

  override func headersDidBegin(_ id: Int32, _ stream: Stream?, isNew: Bool) {
    work &+= 1 &+ block.decoded / 1024
    if let connection {
      bounds.didDecode(block.decoded, now: connection.now)
      let (bound, overflow) = connection.headLimits.headBytes.multipliedReportingOverflow(by: 2)
      blockBound = overflow ? .max : bound
    }
    guard isNew else { return block.beginTrailers() }
    guard let connection, let stream = connection.openStream(id) else { return block.refuse() }
    block.begin(stream, connection.takeExchange(), connection.headLimits)
    stream.begin(connection, id)
    attach(Unmanaged.passUnretained(stream).toOpaque(), to: id)
  }

  override func header(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ stream: Stream?) -> Bool {
    block.add(name, value)
    // A few bytes can stand for a field of kilobytes (RFC 7541 §7.3).
    return block.decoded <= blockBound || isWithin(.headerList)
  }

  override func headersDidEnd(_ stream: Stream, endsStream: Bool) {
    with(stream) { stream in
      if block.isTrailers {
        do throws(BodyError) { stream.inputDidEnd(try block.takeTrailers()) } catch { stream.inputIsInvalid(error) }
      } else if let exchange = block.takeExchange(of: stream) {
        do throws(HeadError) {
          try block.finish(exchange.head, endsStream: endsStream)
          connection?.requestDidArrive(exchange, stream, endsStream: endsStream, nil)
        } catch {
          connection?.requestDidArrive(exchange, stream, endsStream: endsStream, error)
        }
      }
    }
  }

  /// Gives up a block whose stream or connection has ended. Returns the exchange that was to get it.
  func dropBlock(of stream: HTTP2Stream? = nil) -> Exchange? {
    guard let begun = block.stream, stream == nil || stream === begun else { return nil }
    return block.takeExchange(of: begun)
  }

  // MARK: Streams

  override func data(_ bytes: UnsafeRawBufferPointer, _ stream: Stream) { with(stream) { $0.inputDidArrive(bytes) } }
  override func inputDidEnd(_ stream: Stream) { with(stream) { $0.inputDidEnd(nil) } }
  override func takesShortEnd(_ stream: Stream, length: Int) -> Bool {
    with(stream) { $0.takesShortEnd(length: length) }
  }
  override func streamDidClose(_ stream: Stream, code: UInt32) {
    // Counted: the connection gives the stream up within the call.
    connection?.streamDidClose(Unmanaged<HTTP2Stream>.fromOpaque(stream).takeUnretainedValue())
  }
  override func pingWasAnswered() { connection?.announceLastStream() }
  override func output(of stream: Stream, room: Int) -> HTTP2Output { with(stream) { $0.ready(room: room) } }
  override func trailers(of stream: Stream) -> Trailers? { with(stream) { $0.pendingTrailers } }

  override func send(_ count: Int, of stream: Stream, after frameHeader: UnsafeRawBufferPointer) {
    guard let connection else { return }
    with(stream) { stream in
      let isCut = count < 256 && stream.waitingBytes > count
      _ = isWithin(bounds.didSend(isCut: isCut, now: connection.now))
      connection.send(count, of: stream, after: frameHeader)
    }
  }

  override func frameDidGo(_ kind: HTTP2FrameKind, _ stream: Stream, id: Int32, ends: Bool) {
    if ends { with(stream) { $0.responseDidGo() } }
  }
}
