public import Bytes

/// The half of an HTTP/2 stream that sends: the body and the end of a response to a client, or of a request to an upstream.
/// It keeps what the peer's window doesn't take yet.
///
///     waiting ──► open ──► ended          the last bytes, or trailers, end the stream
///                  └─────► broken         a RST_STREAM follows the bytes that wait
///                                closed   nothing goes any more
///
/// A value: its owner passes frames between it and libnghttp2.
public struct HTTP2SendingHalf: ~Copyable {
  private enum State {
    case waiting, open
    case ended(Trailers?)
    case broken, closed
  }

  private var state = State.waiting
  private var pending: WaitingBytes
  /// Whether libnghttp2 waits for `HTTP2Frames.resume`.
  private var isDeferred = false
  /// Bytes that the peer's window has taken.
  private var taken: UInt64 = 0
  private var mark = ProgressMark()

  /// `budget`: what counts the memory of the waiting bytes; nil: nothing does.
  public init(in budget: BodyMemoryBudget?) { pending = WaitingBytes(in: budget) }

  /// Serves another stream. No byte may wait.
  public mutating func reset() {
    state = .waiting
    isDeferred = false
    taken = 0
    mark.set(0)
  }

  // MARK: States

  /// No head has gone.
  public var isWaiting: Bool { if case .waiting = state { true } else { false } }
  /// The body may go on.
  public var isOpen: Bool { if case .open = state { true } else { false } }
  public var hasEnded: Bool { if case .ended = state { true } else { false } }
  public var isBroken: Bool { if case .broken = state { true } else { false } }
  public var isClosed: Bool { if case .closed = state { true } else { false } }
  /// Bytes that the peer's window has not taken.
  public var count: Int { pending.count }
  public var isEmpty: Bool { pending.isEmpty }

  // MARK: The owner's side

  /// The head goes.
  public mutating func begin(hasBody: Bool) { state = hasBody ? .open : .ended(nil) }

  /// Returns false if no body goes any more.
  public mutating func append(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard isOpen else { return false }
    pending.append(bytes)
    return true
  }

  /// The waiting bytes are the last ones. Returns false if the end was settled before.
  public mutating func end(_ trailers: Trailers?) -> Bool {
    guard isOpen else { return false }
    state = .ended(trailers)
    return true
  }

  /// The body breaks off after the bytes that wait. Returns false if none wait, or none may go.
  public mutating func breakOff() -> Bool {
    guard isOpen, !pending.isEmpty else { return false }
    state = .broken
    return true
  }

  /// Nothing goes any more, also no byte that waits.
  public mutating func close() {
    state = .closed
    pending.release()
  }

  public mutating func dropWaiting() { pending.release() }

  /// Whether libnghttp2 has to be told that there is more than when it asked last. It is told once.
  public mutating func mustResume() -> Bool {
    defer { isDeferred = false }
    return isDeferred
  }

  // MARK: libnghttp2's side

  /// What is ready, at most `room` bytes.
  public mutating func ready(room: Int) -> HTTP2Output {
    let count = min(pending.count, room)
    switch state {
    case .open where count > 0, .broken where count > 0: return .bytes(count)
    case .ended(let trailers):
      return count == pending.count ? .last(count, hasTrailers: trailers != nil) : .bytes(count)
    case .open, .waiting, .broken, .closed:
      isDeferred = true
      return .none
    }
  }

  /// The trailers that end the stream.
  public var trailers: Trailers? { if case .ended(let trailers) = state { trailers } else { nil } }

  /// The first `count` waiting bytes, which fit into the peer's window. Valid until `didTake`.
  public func first(_ count: Int) -> UnsafeRawBufferPointer {
    let bytes = pending.readable
    return UnsafeRawBufferPointer(rebasing: bytes[..<min(count, bytes.count)])
  }

  /// The first `count` waiting bytes have gone on.
  public mutating func didTake(_ count: Int) {
    let count = min(count, pending.count)
    pending.consume(count)
    taken &+= UInt64(count)
  }

  // MARK: The deadline

  /// A deadline begins, in which the peer must take bytes.
  public mutating func setMark() { mark.set(taken) }

  /// Whether bytes wait of which the peer has taken some since `setMark`.
  public var isSlowButMoving: Bool { !pending.isEmpty && mark.isPassed(at: taken) }
}
