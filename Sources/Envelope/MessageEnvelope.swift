public import Bytes

/// The envelope of one location: opens its requests and seals its answers. Shared by all workers.
public final class MessageEnvelope: Sendable {
  private let opener: Opener
  private let sealer: Sealer
  /// The largest envelope that is opened, and the largest body that is sealed: both are held in memory whole.
  public let maxSize: Int

  public init(_ keys: EnvelopeKeys, replays: ReplayGuard?, maxSize: Int) {
    opener = Opener(keys, replays: replays)
    sealer = Sealer(responses: keys)
    self.maxSize = maxSize
  }

  /// The plain body of a request. `now`: milliseconds of the system's monotonic clock.
  public func open(_ body: UnsafeRawBufferPointer, now: UInt64) throws(EnvelopeFault) -> ByteBuffer {
    try opener.open(body, now: now)
  }

  /// The envelope of an answer's body.
  public func seal(_ plain: UnsafeRawBufferPointer) throws(SealingFault) -> ByteBuffer { try sealer.seal(plain) }
}
