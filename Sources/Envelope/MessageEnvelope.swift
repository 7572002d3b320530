public import Bytes

/// The envelope of one location: opens its requests and seals its answers. Shared by all workers.
public final class MessageEnvelope: Sendable {
  private let opener: Opener
  private let sealer: Sealer
  /// Where an answer of ours would open as a request: then it is one that was seen.
  private let reflections: ReplayGuard?
  /// The largest envelope that is opened, and the largest body that is sealed: both are held in memory whole.
  public let maxSize: Int

  public init(_ keys: EnvelopeKeys, replays: ReplayGuard?, maxSize: Int) {
    opener = Opener(keys, replays: replays)
    sealer = Sealer(responses: keys)
    reflections = keys.suite == keys.suite.ofResponses ? replays : nil
    self.maxSize = maxSize
  }

  /// The plain body of a request. `now`: milliseconds of the system's monotonic clock.
  public func open(_ body: UnsafeRawBufferPointer, now: UInt64) throws(EnvelopeFault) -> ByteBuffer {
    try opener.open(body, now: now)
  }

  /// The envelope of an answer's body. `now`: as of `open`.
  public func seal(_ plain: UnsafeRawBufferPointer, now: UInt64) throws(SealingFault) -> ByteBuffer {
    let iv = try sealer.iv()
    if let reflections {
      switch reflections.window.look(iv, now: now, span: reflections.span, remembers: true) {
      case .new: break
      case .seen: throw .random
      case .unknown: throw .windowFull
      }
    }
    return try sealer.seal(plain, iv: iv)
  }
}
