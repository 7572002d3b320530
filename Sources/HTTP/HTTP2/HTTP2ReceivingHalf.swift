public import Bytes

/// The half of an HTTP/2 stream that receives: the body and the end of a client's request, or of an upstream's response.
/// While its owner pauses it, it keeps what arrives.
///
///     paused ◄──► flowing ──► closed      the end was delivered, or nobody takes the rest
///
/// A value: it says what the owner delivers now, and the owner delivers it after the call, because whoever takes bytes may
/// pause or close the half.
public struct HTTP2ReceivingHalf: ~Copyable {
  private enum Flow { case paused, flowing, closed }

  /// What came after the last byte.
  public enum End {
    case whole(Trailers?)
    /// A block of trailers that is invalid.
    case invalid(BodyError)
  }

  private var flow: Flow
  private var received = ByteBuffer()
  private var end: End?
  /// Whether the peer has ended its side.
  public private(set) var hasEnded = false

  public init(isPaused: Bool) { flow = isPaused ? .paused : .flowing }

  /// Serves another stream, whose body waits for its owner.
  public mutating func reset() {
    flow = .paused
    end = nil
    hasEnded = false
  }

  public var isFlowing: Bool { flow == .flowing }
  public var isPaused: Bool { flow == .paused }
  /// Whether somebody takes what the peer still sends.
  public var takesInput: Bool { flow != .closed && !hasEnded }
  /// Whether the peer has ended its side, and no byte waits.
  public var isRead: Bool { hasEnded && received.isEmpty }

  // MARK: Events of the peer

  /// Returns whether the owner delivers the bytes now. Otherwise they are kept, or dropped if nobody takes them.
  public mutating func arrive(_ bytes: UnsafeRawBufferPointer) -> Bool {
    if flow == .paused { received.append(bytes) }
    return flow == .flowing
  }

  /// The peer has ended its side. Returns whether the owner delivers the end now.
  public mutating func arriveEnd(_ trailers: Trailers?) -> Bool {
    hasEnded = true
    // A fault that waits to be told stays one.
    if end == nil { end = .whole(trailers) }
    return flow == .flowing
  }

  /// The peer's trailers were invalid. Returns whether the owner tells it now; while it pauses, it learns of it later.
  public mutating func arriveFault(_ error: BodyError) -> Bool {
    end = .invalid(error)
    return flow == .flowing
  }

  // MARK: Calls of the owner

  /// Goes on. Returns the bytes that came meanwhile, which the owner delivers, and then what `settled` has; nil if the half
  /// was not paused.
  public mutating func resume() -> ByteBuffer? {
    guard flow == .paused else { return nil }
    flow = .flowing
    return takeReceived()
  }

  /// What the owner delivers after the last byte; nil while more may come.
  public var settled: End? { end }

  /// Returns whether the half was flowing.
  public mutating func pause() -> Bool {
    guard flow == .flowing else { return false }
    flow = .paused
    return true
  }

  /// The bytes that came while the half was paused.
  public mutating func takeReceived() -> ByteBuffer {
    var arrived = ByteBuffer()
    arrived.swap(with: &received)
    return arrived
  }

  /// The end was delivered, or nobody takes the rest. What was kept stays kept until `dropReceived`.
  public mutating func close() { flow = .closed }
  public mutating func dropReceived() { received.release() }
}
