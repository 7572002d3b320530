/// A request as an upstream that speaks HTTP/2 got it.
package struct UpstreamFrameRequest: Sendable {
  package let stream: Int
  /// The number of the connection that it came over, from 0 on.
  package let connection: Int
  package let fields: [(name: String, value: String)]
  package var body: [UInt8] = []
  package var trailers: [(name: String, value: String)] = []
  /// The sizes of its DATA frames.
  package var pieces: [Int] = []
  /// Whether END_STREAM has come.
  package var isWhole: Bool

  package subscript(name: String) -> String? { fields.first { $0.name == name }?.value }
  package func all(_ name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }
  package var path: String { self[":path"] ?? "" }
  package var method: String { self[":method"] ?? "" }
  package var text: String { String(decoding: body, as: UTF8.self) }
}

/// One connection of an upstream that speaks HTTP/2 in frames of its own making (RFC 9113): for the thread of its script.
package final class UpstreamFrameConnection {
  /// Thrown by a script, it closes the connection.
  package struct HangUp: Error {
    package init() {}
  }

  package enum Kind: UInt8, Sendable {
    case data, headers, priority, reset, settings, pushPromise, ping, goAway, windowUpdate, continuation
  }

  package enum Event {
    case head(UpstreamFrameRequest)
    /// A request is whole: with its head, its last DATA frame or its trailers.
    case request(UpstreamFrameRequest)
    case data(stream: Int, count: Int)
    case reset(stream: Int, code: UInt32)
    case goAway(code: UInt32)
    case windowUpdate(stream: Int, count: Int)
    case settings(isAck: Bool)
    case ping(isAck: Bool)
    case other(UInt8)
  }

  package let wire: Wire
  package let number: Int
  /// Whether DATA frames are credited at once.
  package var credits = true
  /// Whether SETTINGS of the proxy are acknowledged.
  package var acknowledges = true
  private var reader = HPACKReader()
  private var requests: [Int: UpstreamFrameRequest] = [:]
  private var waiting: [Event] = []
  /// How much the peer takes: of the connection, of a new stream, and of each stream beyond that.
  private var window = 65_535, streamWindow = 65_535
  private var windows: [Int: Int] = [:]
  private let note: (Event) -> Void

  init(_ wire: Wire, _ number: Int, note: @escaping (Event) -> Void) {
    self.wire = wire
    self.number = number
    self.note = note
  }

  /// Reads the client's preface and writes SETTINGS.
  package func open(_ settings: [(id: UInt16, value: UInt32)] = []) throws {
    let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    let got = try wire.read(exactly: preface.count)
    guard got == preface else { throw WireError.malformed("preface \(String(decoding: got, as: UTF8.self))") }
    try self.settings(settings)
  }

  // MARK: What comes

  /// The next event; nil at the end of the connection. Frames that only keep the connection going are answered here.
  package func next() throws -> Event? {
    if !waiting.isEmpty { return waiting.removeFirst() }
    return try receive()
  }

  private func receive() throws -> Event? {
    guard let frame = try frame() else { return nil }
    let event = try take(frame)
    note(event)
    return event
  }

  private typealias Frame = (kind: UInt8, flags: UInt8, stream: Int, payload: [UInt8])

  private func frame() throws -> Frame? {
    let first = try wire.readSome(1)
    if first.isEmpty { return nil }
    let header = try first + wire.read(exactly: 8)
    let count = Int(header[0]) << 16 | Int(header[1]) << 8 | Int(header[2])
    return (header[3], header[4], Int(Self.number(header[5...]) & 0x7fff_ffff), try wire.read(exactly: count))
  }

  private static func number(_ bytes: some Sequence<UInt8>) -> UInt32 {
    bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
  }

  private func take(_ frame: Frame) throws -> Event {
    let isMarked = frame.flags & 1 != 0
    switch Kind(rawValue: frame.kind) {
    case .headers: return try takeHead(frame, ends: isMarked)
    case .data:
      if credits, !frame.payload.isEmpty {
        try windowUpdate(0, frame.payload.count)
        if !isMarked { try windowUpdate(frame.stream, frame.payload.count) }
      }
      requests[frame.stream]?.body += frame.payload
      requests[frame.stream]?.pieces.append(frame.payload.count)
      return ended(frame.stream, isMarked) ?? .data(stream: frame.stream, count: frame.payload.count)
    case .settings:
      if isMarked { return .settings(isAck: true) }
      for at in stride(from: 0, to: frame.payload.count - 5, by: 6)
      where frame.payload[at] == 0 && frame.payload[at + 1] == 4 {
        streamWindow = Int(Self.number(frame.payload[(at + 2)...]))
      }
      if acknowledges { try write(.settings, flags: 1) }
      return .settings(isAck: false)
    case .ping:
      if !isMarked { try write(.ping, flags: 1, frame.payload) }
      return .ping(isAck: isMarked)
    case .windowUpdate:
      let count = Int(Self.number(frame.payload))
      if frame.stream == 0 { window += count } else { windows[frame.stream, default: 0] += count }
      return .windowUpdate(stream: frame.stream, count: count)
    case .reset:
      requests[frame.stream] = nil
      return .reset(stream: frame.stream, code: Self.number(frame.payload))
    case .goAway: return .goAway(code: Self.number(frame.payload.dropFirst(4)))
    case .priority, .pushPromise, .continuation, nil: return .other(frame.kind)
    }
  }

  private func takeHead(_ frame: Frame, ends: Bool) throws -> Event {
    guard frame.flags & 0x08 == 0 else { throw WireError.malformed("padding") }
    var block = frame.flags & 0x20 == 0 ? frame.payload : Array(frame.payload.dropFirst(5))
    var flags = frame.flags
    while flags & 0x04 == 0 {
      guard let more = try self.frame(), more.kind == Kind.continuation.rawValue, more.stream == frame.stream else {
        throw WireError.malformed("no CONTINUATION")
      }
      block += more.payload
      flags = more.flags
    }
    let fields = try reader.fields(of: block)
    if requests[frame.stream] != nil {
      requests[frame.stream]?.trailers = fields
      guard let event = ended(frame.stream, ends) else { throw WireError.malformed("trailers that end nothing") }
      return event
    }
    let request = UpstreamFrameRequest(stream: frame.stream, connection: number, fields: fields, isWhole: false)
    requests[frame.stream] = request
    return ended(frame.stream, ends) ?? .head(request)
  }

  private func ended(_ stream: Int, _ ends: Bool) -> Event? {
    guard ends, var request = requests.removeValue(forKey: stream) else { return nil }
    request.isWhole = true
    return .request(request)
  }

  /// The next whole request; nil at the end of the connection.
  package func request() throws -> UpstreamFrameRequest? {
    while let event = try next() { if case .request(let request) = event { return request } }
    return nil
  }

  /// The next request's head, whether or not the request is whole.
  package func head() throws -> UpstreamFrameRequest? {
    while let event = try next() {
      switch event {
      case .request(let request), .head(let request): return request
      default: continue
      }
    }
    return nil
  }

  /// Reads DATA frames of so many bytes.
  package func readData(_ count: Int) throws {
    var got = 0
    while got < count, let event = try next() { if case .data(_, let count) = event { got += count } }
  }

  /// Answers each whole request until the connection ends.
  package func serve(_ answer: (UpstreamFrameRequest) throws -> Void) throws {
    while let request = try request() { try answer(request) }
  }

  /// Reads till the end of the connection.
  package func readToEnd() throws { while try next() != nil {} }

  // MARK: What goes

  package func write(_ kind: Kind, flags: UInt8 = 0, stream: Int = 0, _ payload: [UInt8] = []) throws {
    try write(kind.rawValue, flags: flags, stream: stream, payload)
  }

  package func write(_ kind: UInt8, flags: UInt8 = 0, stream: Int = 0, _ payload: [UInt8] = []) throws {
    try wire.write(Self.frame(kind, flags: flags, stream: stream, payload))
  }

  /// A frame's bytes.
  package static func frame(_ kind: UInt8, flags: UInt8 = 0, stream: Int = 0, _ payload: [UInt8] = []) -> [UInt8] {
    Array(bytes(UInt32(payload.count)).dropFirst()) + [kind, flags] + bytes(UInt32(stream)) + payload
  }

  private static func bytes(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(value >> (24 - 8 * $0) & 0xff) } }

  package func settings(_ settings: [(id: UInt16, value: UInt32)]) throws {
    try write(.settings, settings.flatMap { [UInt8($0.id >> 8), UInt8($0.id & 0xff)] + Self.bytes($0.value) })
  }

  package func windowUpdate(_ stream: Int, _ count: Int) throws {
    try write(.windowUpdate, stream: stream, Self.bytes(UInt32(count)))
  }

  package func reset(_ stream: Int, _ code: UInt32) throws { try write(.reset, stream: stream, Self.bytes(code)) }

  package func goAway(last: Int, _ code: UInt32 = 0) throws {
    try write(.goAway, Self.bytes(UInt32(last)) + Self.bytes(code))
  }

  /// A header block of literals that go into no table.
  package static func block(_ fields: [(String, String)]) -> [UInt8] {
    func string(_ text: String) -> [UInt8] {
      let bytes = Array(text.utf8)
      guard bytes.count >= 127 else { return [UInt8(bytes.count)] + bytes }
      var rest = bytes.count - 127
      var prefix: [UInt8] = [127]
      while rest >= 128 {
        prefix.append(UInt8(rest & 127) | 128)
        rest >>= 7
      }
      return prefix + [UInt8(rest)] + bytes
    }
    return fields.flatMap { [0] + string($0.0) + string($0.1) }
  }

  package func headers(_ stream: Int, _ fields: [(String, String)], ends: Bool = false) throws {
    try write(.headers, flags: ends ? 5 : 4, stream: stream, Self.block(fields))
  }

  /// One DATA frame, whatever the windows say.
  package func data(_ stream: Int, _ bytes: [UInt8], ends: Bool = false) throws {
    try write(.data, flags: ends ? 1 : 0, stream: stream, bytes)
    window -= bytes.count
    windows[stream, default: 0] -= bytes.count
  }

  /// Sends DATA frames as the peer's windows allow them; `meanwhile` gets the events that come while they allow nothing.
  /// Returns false if the stream or the connection ended meanwhile.
  @discardableResult
  package func body(
    _ stream: Int, _ bytes: [UInt8], ends: Bool = true, meanwhile: ((Event) throws -> Void)? = nil
  ) throws -> Bool {
    var rest = bytes[...]
    repeat {
      let room = min(window, streamWindow + windows[stream, default: 0], 16_384)
      if room <= 0, !rest.isEmpty {
        guard let event = try receive() else { return false }
        if let meanwhile { try meanwhile(event) } else { waiting.append(event) }
        if case .reset(stream, _) = event { return false }
        continue
      }
      let piece = rest.prefix(room)
      rest = rest.dropFirst(piece.count)
      try data(stream, Array(piece), ends: ends && rest.isEmpty)
    } while !rest.isEmpty
    return true
  }

  /// A whole response.
  package func answer(
    _ request: UpstreamFrameRequest, _ text: String = "", status: Int = 200, fields: [(String, String)] = [],
    trailers: [(String, String)] = []
  ) throws {
    try headers(
      request.stream, [(":status", "\(status)")] + fields, ends: text.isEmpty && trailers.isEmpty)
    if !text.isEmpty { try body(request.stream, Array(text.utf8), ends: trailers.isEmpty) }
    if !trailers.isEmpty { try headers(request.stream, trailers, ends: true) }
  }
}
