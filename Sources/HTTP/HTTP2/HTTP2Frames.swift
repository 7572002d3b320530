internal import Bytes
internal import CNGHTTP2

/// A kind of frame, for the bounds on how many a peer may send.
public enum HTTP2FrameKind: Sendable {
  case data, headers, priority, reset, settings, ping, goAway, windowUpdate, continuation, pushPromise, other

  init(_ type: UInt32) {
    switch type {
    case NGHTTP2_DATA.rawValue: self = .data
    case NGHTTP2_HEADERS.rawValue: self = .headers
    case NGHTTP2_PRIORITY.rawValue, NGHTTP2_PRIORITY_UPDATE.rawValue: self = .priority
    case NGHTTP2_RST_STREAM.rawValue: self = .reset
    case NGHTTP2_PUSH_PROMISE.rawValue: self = .pushPromise
    case NGHTTP2_SETTINGS.rawValue: self = .settings
    case NGHTTP2_PING.rawValue: self = .ping
    case NGHTTP2_GOAWAY.rawValue: self = .goAway
    case NGHTTP2_WINDOW_UPDATE.rawValue: self = .windowUpdate
    case NGHTTP2_CONTINUATION.rawValue: self = .continuation
    default: self = .other
    }
  }
}

/// The beginning of a frame of the peer (RFC 9113 §4.1), before libnghttp2 judges it.
public struct HTTP2FrameHeader {
  public let kind: HTTP2FrameKind
  public let id: Int32
  /// What the subclass attached to the stream; nil if libnghttp2 has no such stream, or no longer.
  public let stream: HTTP2Frames.Stream?
  /// Bytes that are not padding, as far as the header tells.
  public let length: Int
  public let endsStream: Bool
}

/// The error codes of RFC 9113 §7 that sallyport sends or decides by.
public enum HTTP2ErrorCode: UInt32, Sendable {
  case noError = 0, protocolError = 1, internalError = 2, flowControlError = 3, streamClosed = 5
  case refusedStream = 7, cancel = 8, enhanceYourCalm = 11, http11Required = 13
}

/// What an endpoint announces about itself when a connection begins (RFC 9113 §6.5.2).
public struct HTTP2Announcement: Sendable {
  /// Streams that the peer may open. A client takes none, since it lets no server push.
  public var concurrentStreams: UInt32 = 128
  /// Bytes that a peer may send on a stream before the first credit.
  public var streamWindow: Int32 = 65_535
  /// The same for the whole connection.
  public var connectionWindow: Int32 = 1 << 20
  public var headerListBytes: UInt32 = 32_768
  public var allowsExtendedConnect = false
  public init() {}
}

/// The bytes of a body that a stream has ready to send.
public enum HTTP2Output: Sendable {
  /// Nothing now; `resume` announces more.
  case none
  case bytes(Int)
  /// These are the last bytes, and the stream ends with them, or with the trailers after them.
  case last(Int, hasTrailers: Bool)
}

/// One HTTP/2 connection without its socket: libnghttp2 reads and writes frames, and a subclass gets the events.
///
/// Order of calls: `start`, then `receive` for bytes of the peer and `pull` for bytes to it. No event may call `receive` or
/// `pull`; everything else may be called from within events. A stream is known to the subclass by the pointer that it set
/// with `attach`; the subclass keeps that object alive until `streamDidClose`. Errors of the peer that RFC 9113 makes a
/// stream's or the connection's are answered by libnghttp2 with RST_STREAM or GOAWAY.
open class HTTP2Frames {
  public enum Role: Sendable { case server, client }
  public typealias Stream = UnsafeMutableRawPointer

  final var session: OpaquePointer?
  /// Why the connection can't go on, in libnghttp2's words.
  public final private(set) var failure: String?
  /// What the peer has done too much of.
  public final var bounds = HTTP2Bounds()
  private var streamWindow: Int32 = 0
  private var scan = HTTP2FrameScan(preface: 0)
  private var opened: HTTP2OpenedStreams?

  public init() {}

  deinit { nghttp2_session_del(session) }

  // MARK: Events

  /// A frame header has arrived. Returns false to end the connection: the peer has sent too many of its kind.
  open func frameDidBegin(_ frame: HTTP2FrameHeader) -> Bool { true }
  /// A header block begins. `isNew`: that of a stream that the peer opens, which the subclass attaches or resets.
  open func headersDidBegin(_ id: Int32, _ stream: Stream?, isNew: Bool) {}
  /// A decoded field. Returns false to end the connection: the peer's header list is far too large.
  open func header(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ stream: Stream?) -> Bool { true }
  open func headersDidEnd(_ stream: Stream, endsStream: Bool) {}
  open func data(_ bytes: UnsafeRawBufferPointer, _ stream: Stream) {}
  /// The peer has ended its side of the stream with a DATA frame.
  open func inputDidEnd(_ stream: Stream) {}
  /// A DATA frame of `length` bytes is to end the peer's side of the stream. Returns true if its content-length announced
  /// more and the subclass resets the stream for that itself; libnghttp2 would reset it at once.
  open func takesShortEnd(_ stream: Stream, length: Int) -> Bool { false }
  /// The stream is over, for this reason; its pointer is no longer used.
  open func streamDidClose(_ stream: Stream, code: UInt32) {}
  /// A frame broke a rule of the protocol, and libnghttp2 resets the stream or the connection.
  open func frameWasInvalid(_ kind: HTTP2FrameKind, _ stream: Stream?, reason: String) {}
  open func pingWasAnswered() {}
  open func peerDidGoAway(lastStream: Int32, code: UInt32) {}
  /// The bytes that a stream has ready, at most `room`.
  open func output(of stream: Stream, room: Int) -> HTTP2Output { .none }
  /// Sends a frame's header and `count` bytes of the stream's body.
  open func send(_ count: Int, of stream: Stream, after frameHeader: UnsafeRawBufferPointer) {}
  /// The trailers of a stream whose output ended with `hasTrailers`.
  open func trailers(of stream: Stream) -> Trailers? { nil }
  /// A frame of this kind has gone out on a stream; `ends`: with END_STREAM.
  open func frameDidGo(_ kind: HTTP2FrameKind, _ stream: Stream, id: Int32, ends: Bool) {}

  /// A RST_STREAM has gone out, of libnghttp2's or ours.
  open func resetDidGo(code: UInt32) {}
  /// A GOAWAY with an error has gone out, after which the connection ends. `reason`: the error's name in RFC 9113.
  open func connectionDidBreak(reason: String) {}

  // MARK: Beginning and bytes

  /// Makes the session and submits its first SETTINGS. Returns false if memory is lacking.
  public final func start(_ role: Role, _ announcement: HTTP2Announcement) -> Bool {
    guard session == nil, let made = HTTP2Callbacks.makeSession(role, Unmanaged.passUnretained(self).toOpaque()) else {
      return false
    }
    session = made
    streamWindow = announcement.streamWindow
    if role == .server {
      scan = HTTP2FrameScan(preface: HTTP2FrameScan.clientPreface)
      opened = HTTP2OpenedStreams()
    }
    var settings = [
      Self.setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, announcement.concurrentStreams),
      Self.setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, UInt32(max(0, announcement.streamWindow))),
      Self.setting(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, announcement.headerListBytes),
      // Priorities are ignored (RFC 9113 §5.3.2, RFC 9218 §2.1).
      nghttp2_settings_entry(settings_id: 9, value: 1),
    ]
    if role == .client { settings.append(Self.setting(NGHTTP2_SETTINGS_ENABLE_PUSH, 0)) }
    if announcement.allowsExtendedConnect {
      settings.append(Self.setting(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1))
    }
    guard nghttp2_submit_settings(made, 0, settings, settings.count) == 0 else { return false }
    return nghttp2_session_set_local_window_size(made, 0, 0, announcement.connectionWindow) == 0
  }

  private static func setting(_ id: nghttp2_settings_id, _ value: UInt32) -> nghttp2_settings_entry {
    nghttp2_settings_entry(settings_id: Int32(id.rawValue), value: value)
  }

  /// Whether the peer's frames have caused enough work for now. `receive` then stops at the end of a frame.
  open var hasEnough: Bool { false }

  /// Reads bytes of the peer until it `hasEnough`, at least one frame of them. Returns how many it read; nil if the
  /// connection can't go on: `failure` says why.
  public final func receive(_ bytes: UnsafeRawBufferPointer) -> Int? {
    var taken = 0
    while taken < bytes.count {
      if taken > 0, hasEnough { return taken }
      let rest = UnsafeRawBufferPointer(rebasing: bytes[taken...])
      let (count, header) = scan.next(rest)
      if let header, !begin(header) {
        note(NGHTTP2_ERR_PROTO.rawValue)
        return nil
      }
      let bytes = UnsafeRawBufferPointer(rebasing: rest[..<count])
      guard header.flatMap({ feedShortEnd($0, bytes) }) ?? feed(bytes) else { return nil }
      taken += count
    }
    return taken
  }

  private func begin(_ header: HTTP2FrameScan.Header) -> Bool {
    // libnghttp2 checks no PRIORITY when it ignores priorities (RFC 9113 §6.3).
    if header.type == NGHTTP2_PRIORITY.rawValue, header.stream == 0 { return false }
    // libnghttp2 ignores a head on every stream that is over, as it might be trailers behind our reset. A stream that never
    // began has none (RFC 9113 §5.1.1).
    if header.type == NGHTTP2_HEADERS.rawValue, opened?.takes(header.stream) == false { return false }
    // Padding is no data (RFC 9113 §6.1).
    let isPadded = header.flags & NGHTTP2_FLAG_PADDED.rawValue != 0
    return frameDidBegin(
      HTTP2FrameHeader(
        kind: HTTP2FrameKind(header.type), id: header.stream,
        stream: session.flatMap { nghttp2_session_get_stream_user_data($0, header.stream) },
        length: isPadded ? max(0, header.length - 256) : header.length,
        endsStream: header.flags & NGHTTP2_FLAG_END_STREAM.rawValue != 0))
  }

  /// Passes a DATA frame on without its END_STREAM, if it ends its stream too early and the subclass takes that upon itself.
  /// Returns nil for every other frame, and for one that came in several reads.
  private func feedShortEnd(_ header: HTTP2FrameScan.Header, _ bytes: UnsafeRawBufferPointer) -> Bool? {
    guard header.type == NGHTTP2_DATA.rawValue, header.flags == NGHTTP2_FLAG_END_STREAM.rawValue, let session,
      bytes.count == HTTP2FrameScan.headerSize + header.length,
      let stream = nghttp2_session_get_stream_user_data(session, header.stream),
      takesShortEnd(stream, length: header.length)
    else { return nil }
    var open = Array(bytes)
    open[HTTP2FrameScan.flagsPlace] = 0
    guard open.withUnsafeBytes({ feed($0) }) else { return false }
    if let stream = nghttp2_session_get_stream_user_data(session, header.stream) { inputDidEnd(stream) }
    return true
  }

  private func feed(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard let session, let base = bytes.baseAddress else { return true }
    let result = nghttp2_session_mem_recv(session, base.assumingMemoryBound(to: UInt8.self), bytes.count)
    guard result < 0 else { return true }
    note(Int32(truncatingIfNeeded: result))
    return false
  }

  /// Passes the next frames to `write` while it returns true. Returns false if the connection can't go on.
  public final func pull(_ write: (UnsafeRawBufferPointer) -> Bool) -> Bool {
    guard let session else { return true }
    while true {
      var bytes: UnsafePointer<UInt8>?
      let count = nghttp2_session_mem_send(session, &bytes)
      guard count >= 0 else {
        note(Int32(truncatingIfNeeded: count))
        return false
      }
      guard count > 0 else { return true }
      guard write(UnsafeRawBufferPointer(start: bytes, count: count)) else { return true }
    }
  }

  /// Whether the connection still reads or writes. False after a GOAWAY and the last stream.
  public final var isAlive: Bool {
    guard let session, failure == nil else { return false }
    return nghttp2_session_want_read(session) != 0 || nghttp2_session_want_write(session) != 0
  }

  /// Whether `pull` has frames to pass on.
  public final var hasOutput: Bool {
    guard let session, failure == nil else { return false }
    return nghttp2_session_want_write(session) != 0
  }

  final func note(_ code: Int32) {
    if failure == nil { failure = String(cString: nghttp2_strerror(code)) }
  }

  // MARK: Streams

  /// Connects a new stream with the pointer under which its events come.
  public final func attach(_ stream: Stream, to id: Int32) {
    guard let session else { return }
    nghttp2_session_set_stream_user_data(session, id, stream)
    // Without priorities of the client, streams share the connection in turn, frame by frame.
    var priority = nghttp2_extpri(urgency: 3, inc: 1)
    nghttp2_session_change_extpri_stream_priority(session, id, &priority, 1)
  }

  /// The stream has more output than when `output` last returned `none`.
  public final func resume(_ id: Int32) {
    if let session { nghttp2_session_resume_data(session, id) }
  }

  public final func reset(_ id: Int32, _ code: HTTP2ErrorCode) {
    guard let session else { return }
    didGiveUpInput()
    nghttp2_submit_rst_stream(session, 0, id, code.rawValue)
  }

  /// This side takes no more bytes of a stream, though the peer may still send them.
  public final func didGiveUpInput() { bounds.didGiveUp(window: streamWindow) }

  /// Gives the peer credit for bytes that were taken: of the connection's window, or of a stream's.
  public final func credit(connection count: Int) {
    if let session { nghttp2_session_consume_connection(session, count) }
  }
  public final func credit(_ id: Int32, _ count: Int) {
    if let session, count > 0 { nghttp2_session_consume_stream(session, id, count) }
  }

  /// Sends the peer a frame that changes nothing but one byte of credit, for a peer that looks at its streams when something
  /// arrives only.
  public final func wakePeer() {
    if let session { nghttp2_submit_window_update(session, 0, 0, 1) }
  }

  /// How many streams the peer takes at a time, by its SETTINGS.
  public final var peerStreamLimit: Int {
    guard let session else { return 0 }
    return Int(nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
  }

  // MARK: The connection

  /// Announces that no more streams will be taken soon: a GOAWAY for the highest stream, and a PING, whose answer shows that
  /// the peer has read it (RFC 9113 §6.8).
  public final func announceShutdown() {
    guard let session else { return }
    nghttp2_submit_shutdown_notice(session)
    nghttp2_submit_ping(session, 0, nil)
  }

  /// Ends the connection after the streams that have begun.
  public final func goAway(_ code: HTTP2ErrorCode = .noError) {
    guard let session else { return }
    let last = nghttp2_session_get_last_proc_stream_id(session)
    nghttp2_submit_goaway(session, 0, last, code.rawValue, nil, 0)
  }

  /// Ends the connection and every stream of it.
  public final func terminate(_ code: HTTP2ErrorCode) {
    if let session { nghttp2_session_terminate_session(session, code.rawValue) }
  }
}
