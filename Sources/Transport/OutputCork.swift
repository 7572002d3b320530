public import Bytes
import Glibc

/// A worker's one output buffer: what a stream writes during one pump gathers here and leaves in one send.
///
/// Why: records and heads are small, sends are dear (performance.md: 4.1 system calls a request against nginx's 7.1).
/// One stream owns it at a time; another stream's write first sends what is there. What the kernel does not take moves
/// to the stream. It must never hold bytes of a stream past the pump that wrote them: EventLoop flushes after each event.
public final class OutputCork {
  /// A send leaves at the latest when this much waits.
  public static let limit = 256 * 1024
  /// One TLS record's worth of plain text.
  public static let plainLimit = 16 * 1024

  /// Bytes for the wire.
  public final var wire: ByteBuffer
  /// Plain text that a TLS stream has not sealed yet.
  public final var plain: ByteBuffer
  final var stream: ByteStream?

  init() {
    wire = ByteBuffer(capacity: Self.limit + 32 * 1024)
    plain = ByteBuffer(capacity: Self.plainLimit)
  }

  /// Makes a stream the owner.
  @inline(__always)
  public final func claim(_ stream: ByteStream) {
    if self.stream === stream { return }
    flush()
    self.stream = stream
  }

  /// Sends what is there.
  public final func flush() {
    guard let stream else { return }
    stream.sealCorked()
    self.stream = nil
    stream.transmit(&wire)
    wire.removeAll()
    plain.removeAll()
  }
}
