import Bytes
import HTTP

/// The frames of an HTTP/2 session with an upstream: makes response heads of header blocks, counts what the upstream does too
/// much of, and passes the other events on.
final class UpstreamFrames: HTTP2Frames {
  // Not retained: the session owns this object, and clears the reference when it closes.
  unowned(unsafe) var session: HTTP2UpstreamSession?
  /// The limit that the upstream has exceeded.
  private(set) var exceeded: HTTP2Limit?
  /// What was wrong with the upstream's frames, in libnghttp2's words.
  private(set) var broken: String?
  private var builder = HTTP2ResponseBuilder()
  private var trailers = TrailerSection()
  private var isInTrailers = false
  /// Whether the header block that the upstream sends is of a stream that is over.
  private var isUnwantedBlock = false
  /// Bytes of names and values of the block so far.
  private var decoded = 0

  /// Calls the stream behind a pointer that a request got. The session holds it until it is closed.
  @inline(__always)
  private func with<Value>(_ stream: Stream, _ body: (HTTP2UpstreamStream) -> Value) -> Value {
    Unmanaged<HTTP2UpstreamStream>.fromOpaque(stream)._withUnsafeGuaranteedRef { body($0) }
  }

  override func frameDidBegin(_ frame: HTTP2FrameHeader) -> Bool {
    guard let session else { return false }
    switch frame.kind {
    // A response may come before the request's end, with a reset after it (RFC 9113 §8.1): one for each request of ours.
    case .reset where frame.stream != nil: return true
    // libnghttp2 would take it until the upstream has acknowledged our SETTINGS. It has read them before any request.
    case .pushPromise:
      broken = broken ?? "PUSH_PROMISE, though SETTINGS_ENABLE_PUSH is 0"
      return false
    default: break
    }
    if isUnwanted(frame) { exceeded = bounds.takeUnwanted(length: frame.length, now: session.now) }
    if exceeded == nil {
      exceeded = bounds.take(frame.kind, length: frame.length, endsStream: frame.endsStream, now: session.now)
    }
    return exceeded == nil
  }

  /// Whether a part of a head or body has no taker: the response is whole, or the attempt has ended.
  private func isUnwanted(_ frame: HTTP2FrameHeader) -> Bool {
    switch frame.kind {
    case .data: return frame.stream.map { !with($0) { $0.takesInput } } ?? true
    case .headers:
      isUnwantedBlock = frame.stream.map { !with($0) { $0.takesInput } } ?? true
      return isUnwantedBlock
    case .continuation: return isUnwantedBlock
    default: return false
    }
  }

  override func headersDidBegin(_ id: Int32, _ stream: Stream?, isNew: Bool) {
    decoded = 0
    guard let stream else { return }
    with(stream) { stream in
      isInTrailers = stream.hasFinalHead
      if isInTrailers { return trailers.begin() }
      if let observer = stream.observer { builder.begin(observer.answer, limits: stream.limits) }
    }
  }

  override func header(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ stream: Stream?) -> Bool {
    guard let stream else { return true }
    decoded &+= name.count &+ value.count
    if isInTrailers {
      trailers.add(name, value)
    } else {
      with(stream) { if let observer = $0.observer { builder.add(name, value, to: observer.answer) } }
    }
    // A few bytes can stand for a field of kilobytes (RFC 7541 §7.3).
    guard decoded > 2 * with(stream, { $0.limits.headBytes }) + 8192 else { return true }
    exceeded = .headerList
    return false
  }

  override func headersDidEnd(_ stream: Stream, endsStream: Bool) {
    with(stream) { stream in
      guard let observer = stream.observer else { return }
      if isInTrailers {
        do throws(BodyError) { stream.inputDidEnd(try trailers.take()) } catch {
          stream.fail(.invalidBody("upstream sent an invalid body: \(error.reason)"))
        }
        return
      }
      do throws(HeadError) {
        try builder.finish(observer.answer, endsStream: endsStream, to: stream.method)
      } catch {
        return stream.fail(.invalidHead(error))
      }
      stream.headDidArrive(observer, endsStream: endsStream)
    }
  }

  override func data(_ bytes: UnsafeRawBufferPointer, _ stream: Stream) { with(stream) { $0.inputDidArrive(bytes) } }
  override func inputDidEnd(_ stream: Stream) { with(stream) { $0.inputDidEnd(nil) } }

  override func streamDidClose(_ stream: Stream, code: UInt32) {
    // Counted: the session gives the stream up within the call.
    let stream = Unmanaged<HTTP2UpstreamStream>.fromOpaque(stream).takeUnretainedValue()
    session?.remove(stream)
    stream.didClose(code: code)
  }

  override func frameDidGo(_ kind: HTTP2FrameKind, _ stream: Stream, id: Int32, ends: Bool) {
    with(stream) { if kind == .reset { $0.isResetByUs = true } else { $0.isOnWire = true } }
  }

  override func peerDidGoAway(lastStream: Int32, code: UInt32) { session?.peerDidGoAway() }
  override func output(of stream: Stream, room: Int) -> HTTP2Output { with(stream) { $0.ready(room: room) } }
  override func trailers(of stream: Stream) -> Trailers? { with(stream) { $0.pendingTrailers } }

  override func send(_ count: Int, of stream: Stream, after frameHeader: UnsafeRawBufferPointer) {
    guard let session else { return }
    // An upstream may credit each frame of an upload as it reads it.
    _ = bounds.didSend(isCut: false, now: session.now)
    with(stream) { session.send(count, of: $0, after: frameHeader) }
  }

  override func connectionDidBreak(reason: String) { broken = broken ?? reason }
  override func frameWasInvalid(_ kind: HTTP2FrameKind, _ stream: Stream?, reason: String) { broken = broken ?? reason }
}
