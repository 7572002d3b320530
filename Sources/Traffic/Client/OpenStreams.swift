import HTTP

/// The streams of an HTTP/2 connection: those that libnghttp2 knows and those whose exchange goes on without them, and
/// objects for later ones.
struct OpenStreams {
  private(set) var all: [HTTP2Stream] = []
  private var spare: [HTTP2Stream] = []

  private static let sparesKept = 64

  /// Streams whose requests of early data wait for the end of the handshake (RFC 8470 §3).
  private var held: [HTTP2Stream] = []
  var hasHeld: Bool { !held.isEmpty }

  mutating func hold(_ stream: HTTP2Stream) { held.append(stream) }

  mutating func takeHeld() -> [HTTP2Stream] {
    defer { held = [] }
    return held
  }

  /// Returns whether the stream was held.
  mutating func release(_ stream: HTTP2Stream) -> Bool {
    guard let index = held.firstIndex(where: { $0 === stream }) else { return false }
    held.remove(at: index)
    return true
  }

  var isEmpty: Bool { all.isEmpty }

  mutating func add(to session: ClientSession) -> HTTP2Stream {
    let stream = spare.popLast() ?? HTTP2Stream(session)
    stream.place = all.count
    all.append(stream)
    session.worker.streams.add(1)
    return stream
  }

  /// Removes a stream that is over; has no effect on one that was removed before.
  mutating func remove(_ stream: HTTP2Stream) {
    guard all.indices.contains(stream.place), all[stream.place] === stream else { return }
    let place = stream.place
    all.swapAt(place, all.count - 1)
    all[place].place = place
    // This is the last reference to it: events of libnghttp2 have none of their own.
    let removed = all.removeLast()
    removed.session.worker.streams.remove(1)
    if spare.count < Self.sparesKept { spare.append(removed) } else { removed.retire() }
  }

  /// Gives up every stream, because each retains the session.
  mutating func removeAll() -> [HTTP2Stream] {
    for stream in spare { stream.retire() }
    spare = []
    all.first?.session.worker.streams.remove(all.count)
    defer { all = [] }
    return all
  }
}

extension HTTP2Announcement {
  package init(_ server: LiveServer) {
    self.init()
    concurrentStreams = UInt32(clamping: server.settings.http2.concurrentStreams)
    streamWindow = Int32(clamping: server.settings.http2.bodyPrereadSize)
    // RFC 9113 §6.5.2 counts 32 more for each field. A client must not withhold a head that would be taken.
    let (bytes, overflow) = server.headLimits.headBytes.addingReportingOverflow(32 &* server.headLimits.fields)
    headerListBytes = UInt32(clamping: overflow ? .max : bytes)
    allowsExtendedConnect = true
  }
}
