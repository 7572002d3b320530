public import Bytes

/// The envelope of one location, which opens its requests and seals its responses. All workers share it.
public final class MessageEnvelope: Sendable {
  private let opener: Opener
  private let sealer: Sealer
  /// Set when a sealed response would also open as a request. Its IV is then remembered, so that a reflected response
  /// is a replay.
  private let reflections: ReplayGuard?
  /// Milliseconds for which an envelope must be remembered; nil: replays are not looked for.
  package let replaySpan: UInt64?
  /// The name of the keys that seal.
  private let keysName: [UInt8]
  /// The largest envelope to open and the largest body to seal: both are held in memory whole.
  public let maxSize: Int

  public init(_ keys: EnvelopeKeys, replays: ReplayGuard?, maxSize: Int) {
    opener = Opener(keys, replays: replays)
    sealer = Sealer(responses: keys)
    keysName = keys.current.identity
    replaySpan = replays?.span
    reflections = keys.suite == keys.suite.ofResponses ? replays : nil
    self.maxSize = maxSize
  }

  /// Opens a request's envelope and returns its plain body. `now`: milliseconds of the system's monotonic clock.
  public func open(_ body: UnsafeRawBufferPointer, now: UInt64) throws(EnvelopeError) -> ByteBuffer {
    try opener.open(body, now: now)
  }

  /// `open`. `name` gets the name by which all machines know the envelope.
  package func open(
    _ body: UnsafeRawBufferPointer, now: UInt64, name: inout [UInt8]
  ) throws(EnvelopeError) -> ByteBuffer {
    try opener.open(body, now: now, name: &name)
  }

  /// Seals the body of a response. `now`: as in `open`.
  public func seal(_ plain: UnsafeRawBufferPointer, now: UInt64) throws(SealingError) -> ByteBuffer {
    var name: [UInt8]?
    return try seal(plain, now: now, name: &name)
  }

  /// `seal`. `name` gets the name by which all machines must know the envelope before anybody has it; nil: it opens as no
  /// request.
  package func seal(
    _ plain: UnsafeRawBufferPointer, now: UInt64, name: inout [UInt8]?
  ) throws(SealingError) -> ByteBuffer {
    let iv = try sealer.iv()
    if let reflections {
      switch reflections.window.look(iv, now: now, span: reflections.span, remembers: true) {
      case .new: break
      case .seen, .forgotten: throw .random
      case .unknown: throw .windowFull
      }
    }
    name = reflections.map { _ in keysName + iv }
    return try sealer.seal(plain, iv: iv)
  }
}
