import Synchronization
import Transport

/// Retains a stream until what it waits for arrives, and releases the stream on the loop, where it must be freed.
final class StreamWaiter: Sendable {
  private let stream: Mutex<LoopBox<TLSStream>?>

  init(_ stream: TLSStream) { self.stream = Mutex(LoopBox(stream)) }

  /// Returns the stream on the first call, then nil.
  func take() -> TLSStream? {
    stream.withLock { stream in
      defer { stream = nil }
      return stream?.value
    }
  }
}
