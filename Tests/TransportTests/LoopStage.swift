import Glibc
import TestSupport
import Transport

/// One loop for the suite: it turns as a worker's does, with the connections of many tests at once.
enum Stage {
  private static let made = Result { () throws(SocketError) -> EventLoop in
    let loop = try EventLoop(index: 0)
    loop.start { _ in }
    return loop
  }

  static func loop() throws -> EventLoop { try made.get() }
}

/// Runs work on the loop and waits for what comes of it.
func onLoop<T: Sendable>(_ work: @escaping @Sendable (EventLoop) throws -> T) async throws -> T {
  let loop = try Stage.loop()
  return try await withCheckedThrowingContinuation { continuation in
    loop.post { continuation.resume(with: Result { try work(loop) }) }
  }
}

/// An owner that notes what it is told. Its stream is touched on the loop only.
// @unchecked: `stream` and `reads` belong to the loop, the rest is Sendable.
final class StreamProbe: StreamOwner, @unchecked Sendable {
  enum Event: Equatable, Sendable {
    case opened, drained, deadline, again, end, broken
    case bytes([UInt8])
    case failed(String)
  }

  let events: AsyncStream<Event>
  private let sink: AsyncStream<Event>.Continuation
  private(set) var stream: ByteStream?
  /// False: what comes is left unread.
  var reads = true
  /// True: it will write soon.
  var writesSoon = false

  override init() {
    (events, sink) = AsyncStream.makeStream()
    super.init()
  }

  static func over(_ descriptor: Int32, isConnecting: Bool = false, reads: Bool = true) async throws -> StreamProbe {
    try await onLoop { loop in
      let probe = StreamProbe()
      probe.reads = reads
      let stream = try ByteStream(loop: loop, descriptor: descriptor, isConnecting: isConnecting)
      stream.owner = probe
      probe.stream = stream
      stream.begin()
      return probe
    }
  }

  /// Works on the stream, on the loop.
  func use<T: Sendable>(_ work: @escaping @Sendable (ByteStream) throws -> T) async throws -> T {
    try await onLoop { _ in
      guard let stream = self.stream else { throw SocketError("the stream was given up", 0) }
      return try work(stream)
    }
  }

  func giveUp(_ closing: ByteStream.Closing = .orderly) async throws {
    try await onLoop { _ in
      self.stream?.close(closing)
      self.stream = nil
    }
  }

  override var streamWillWrite: Bool { writesSoon }
  override func streamDidOpen() { sink.yield(.opened) }
  override func streamDidDrain() { sink.yield(.drained) }
  override func streamDeadlinePassed() { sink.yield(.deadline) }
  override func streamAgain() {
    sink.yield(.again)
    streamIsReadable()
  }
  override func streamDidFail(_ failure: StreamFailure) { sink.yield(.failed("\(failure)")) }

  override func streamIsReadable() {
    guard reads, let stream else { return }
    var gathered: [UInt8] = []
    loop: while true {
      var piece = [UInt8](repeating: 0, count: 4096)
      switch piece.withUnsafeMutableBytes({ stream.read(into: $0) }) {
      case .bytes(let count): gathered += piece[..<count]
      case .wouldBlock: break loop
      case .end:
        if !gathered.isEmpty { sink.yield(.bytes(gathered)) }
        sink.yield(.end)
        return
      case .failed:
        if !gathered.isEmpty { sink.yield(.bytes(gathered)) }
        sink.yield(.broken)
        return
      }
    }
    if !gathered.isEmpty { sink.yield(.bytes(gathered)) }
  }
}

/// The other end of a stream: a plain, waiting descriptor that closes with the object.
final class Peer: Sendable {
  let descriptor: Int32
  init(_ descriptor: Int32) { self.descriptor = descriptor }
  deinit { close(descriptor) }

  /// A pair of connected sockets: the stream's end, which does not wait, and the peer's, which does.
  static func pair() throws -> (stream: Int32, peer: Peer) {
    var both: [Int32] = [-1, -1]
    guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &both) == 0 else {
      throw SocketError("socketpair", errno)
    }
    _ = fcntl(both[0], F_SETFL, O_NONBLOCK)
    return (both[0], Peer(both[1]))
  }

  func write(_ bytes: [UInt8]) {
    _ = bytes.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(truncatingIfNeeded: MSG_NOSIGNAL)) }
  }

  /// Reads so many bytes, or up to the end, in pieces of at most `piece`.
  func read(_ count: Int, piece: Int = 65536) async throws -> [UInt8] {
    let descriptor = descriptor
    return try await offPool {
      var all: [UInt8] = []
      all.reserveCapacity(count)
      var buffer = [UInt8](repeating: 0, count: piece)
      while all.count < count {
        let got = Glibc.read(descriptor, &buffer, min(piece, count - all.count))
        guard got > 0 else { break }
        all += buffer[..<got]
      }
      return all
    }
  }
}

/// Bytes that tell their place, so that a lost or doubled piece shows.
func pattern(_ count: Int, seed: Int = 0) -> [UInt8] {
  var state = UInt64(truncatingIfNeeded: seed &* 7919 &+ 1)
  return (0..<count).map { _ in
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return UInt8(truncatingIfNeeded: state >> 33)
  }
}
