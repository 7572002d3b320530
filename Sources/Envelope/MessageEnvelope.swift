public import Bytes

/// The envelope of one location, which opens its requests and seals its responses. All workers share it.
public final class MessageEnvelope: Sendable {
  private let opener: Opener
  private let sealer: Sealer
  /// Set when a sealed response would also open as a request. Its IV is then remembered, so that a reflected response
  /// is a replay.
  private let reflections: ReplayGuard?
  /// The largest envelope to open and the largest body to seal: both are held in memory whole.
  public let maxSize: Int

  public init(_ keys: EnvelopeKeys, replays: ReplayGuard?, maxSize: Int) {
    opener = Opener(keys, replays: replays)
    sealer = Sealer(responses: keys)
    reflections = keys.suite == keys.suite.ofResponses ? replays : nil
    self.maxSize = maxSize
  }

  /// Opens a request's envelope and returns its plain body. `now`: milliseconds of the system's monotonic clock.
  public func open(_ body: UnsafeRawBufferPointer, now: UInt64) throws(EnvelopeError) -> ByteBuffer {
    try opener.open(body, now: now)
  }

  /// Seals the body of a response. `now`: as in `open`.
  public func seal(_ plain: UnsafeRawBufferPointer, now: UInt64) throws(SealingError) -> ByteBuffer {
    let iv = try sealer.iv()
    if let reflections {
      switch reflections.window.look(iv, now: now, span: reflections.span, remembers: true) {
      case .new: break
      case .seen, .forgotten: throw .random
      case .unknown: throw .windowFull
      }
    }
    return try sealer.seal(plain, iv: iv)
  }
}
