import Files
import Traffic

/// Buffers for slices of files that the responses of one worker use in turn. A response has one while a thread reads for it,
/// and never while it waits for its client.
final class FileBuffers: WorkerPart {
  private var spare: [FileBuffer] = []

  /// Bytes of a slice but the first.
  static let slice = 262_144
  /// Buffers that are kept for the next slices: 1 MiB.
  private static let limit = 4

  /// A buffer with room for that many bytes, and for no more where it counts: while responses take much memory.
  func take(_ count: Int) -> FileBuffer {
    count < Self.slice ? FileBuffer(capacity: count) : spare.popLast() ?? FileBuffer(capacity: Self.slice)
  }

  func giveBack(_ buffer: FileBuffer) {
    if spare.count < Self.limit, buffer.capacity == Self.slice { spare.append(buffer) }
  }
}
