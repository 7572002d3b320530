/// A client of HTTP/2 over plain TCP that writes what a test wants, frame by frame, and reads what comes. It opens no
/// window and acknowledges nothing of its own accord, apart from the first SETTINGS.
///
/// For a thread of its own (`Scene.talk`), since it blocks. No read waits longer than the wire's time limit.
package final class FrameClient {
  package struct Response {
    package var status = 0
    package var fields: [HPACK.Field] = []
    package var body: [UInt8] = []
    package var trailers: [HPACK.Field] = []
    /// The error code of the RST_STREAM that ended it.
    package var resetCode: HTTP2Frame.ErrorCode?
    /// Whether END_STREAM came.
    package var isComplete = false
    package var text: String { String(decoding: body, as: UTF8.self) }
    package subscript(name: String) -> String? { fields.first { $0.name == name }?.value }
  }

  package let wire: Wire
  /// Frames that were read while another was waited for.
  private var kept: [HTTP2Frame] = []
  private var pings: UInt32 = 0
  /// The error code of the GOAWAY that came.
  package private(set) var goAwayCode: HTTP2Frame.ErrorCode?
  package private(set) var hasEnded = false
  /// Bytes of DATA that the peer took for the whole connection when it began.
  package private(set) var connectionWindow = 65_535

  package static let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

  package init(_ wire: Wire) { self.wire = wire }

  /// Sends the preface and SETTINGS: the peer is to use no dynamic table. Returns once both sides have acknowledged.
  ///
  /// `acknowledges`: false for a client that isn't bound by the peer's settings, because it never says that it has them.
  package func begin(_ settings: KeyValuePairs<UInt16, UInt32> = [:], acknowledges: Bool = true) throws {
    try wire.write(Self.preface)
    send(.settings([1: 0]), .settings(settings))
    var missing = 3
    while missing > 0 {
      guard let frame = try next() else { throw WireError.truncated(got: 0) }
      if frame.kind == .windowUpdate { connectionWindow += Int(frame.word(at: 0)) }
      guard frame.kind == .settings else { continue }
      missing -= 1
      if acknowledges, !frame.has(HTTP2Frame.acknowledged) { send(.settingsTaken) }
    }
    for frame in try settle() where frame.kind == .windowUpdate { connectionWindow += Int(frame.word(at: 0)) }
  }

  /// Writes frames. A peer that has closed shows when reading.
  package func send(_ frames: HTTP2Frame...) { send(frames) }
  package func send(_ frames: [HTTP2Frame]) { try? wire.write(frames.flatMap(\.bytes)) }

  /// The next frame; nil when the peer has closed.
  package func next() throws -> HTTP2Frame? {
    if !kept.isEmpty { return kept.removeFirst() }
    return try read()
  }

  private func read() throws -> HTTP2Frame? {
    if hasEnded { return nil }
    let first = try wire.readSome(1)
    guard !first.isEmpty else {
      hasEnded = true
      return nil
    }
    let header = try first + wire.read(exactly: 8)
    let count = Int(header[0]) << 16 | Int(header[1]) << 8 | Int(header[2])
    let stream = header[5...8].reduce(0) { $0 << 8 | UInt32($1) }
    let frame = HTTP2Frame(type: header[3], flags: header[4], stream: stream, payload: try wire.read(exactly: count))
    if frame.kind == .goAway, goAwayCode == nil || frame.errorCode != .noError { goAwayCode = frame.errorCode }
    return frame
  }

  /// Whatever came before the peer had read all that was sent, and had answered it: a PING's answer may overtake other
  /// frames, that of a second one can't. Ends also when the peer closes.
  package func settle() throws -> [HTTP2Frame] {
    var frames = kept
    kept = []
    for _ in 0..<2 {
      pings += 1
      let number = 0x5a5a_0000 + pings
      send(.ping(number))
      while let frame = try read() {
        if frame.kind == .ping, frame.has(HTTP2Frame.acknowledged), frame.word(at: 0) == number { break }
        frames.append(frame)
      }
    }
    return frames
  }

  /// Reads until the peer closes, and returns the error code of its GOAWAY.
  package func ending() throws -> HTTP2Frame.ErrorCode? {
    while try read() != nil {}
    return goAwayCode
  }

  /// The response on a stream, until the stream or the connection ends; frames of other streams are kept.
  package func response(on stream: UInt32) throws -> Response {
    var response = Response(), others: [HTTP2Frame] = []
    defer { kept = others + kept }
    while let frame = try next() {
      guard frame.stream == stream else {
        if frame.stream != 0 { others.append(frame) }
        continue
      }
      switch frame.kind {
      case .headers:
        let fields = try HPACK.fields(of: frame.payload)
        if let status = fields.first(where: { $0.name == ":status" }).flatMap({ Int($0.value) }) {
          response.status = status
          response.fields = fields
        } else {
          response.trailers = fields
        }
      case .data: response.body += frame.payload
      case .reset:
        response.resetCode = frame.errorCode
        return response
      default: break
      }
      if frame.endsStream {
        response.isComplete = true
        return response
      }
    }
    return response
  }

  /// Sends a request without a body and reads its response.
  package func get(_ stream: UInt32, _ path: String, _ more: [HPACK.Field] = []) throws -> Response {
    send(.get(stream, path, more))
    return try response(on: stream)
  }
}

extension Scene {
  /// A conversation in frames, on a thread of its own, once both sides have begun.
  package func frames<R: Sendable>(
    _ port: UInt16, settings: KeyValuePairs<UInt16, UInt32> = [:],
    _ body: @escaping @Sendable (FrameClient) throws -> R
  ) async throws -> R {
    try await talk(port) { wire in
      let client = FrameClient(wire)
      try client.begin(settings)
      return try body(client)
    }
  }
}
