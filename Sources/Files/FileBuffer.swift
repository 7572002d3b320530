/// Memory for a slice of a file, which is used again: an array would be made anew for each slice, and the system would clear
/// its pages each time.
///
/// A buffer belongs to one owner at a time: the thread that reads into it, or the event loop that sends from it. That is why
/// it may go from one to the other without a lock.
public final class FileBuffer: @unchecked Sendable {
  private let memory: UnsafeMutableRawBufferPointer
  private var count = 0

  public init(capacity: Int) {
    memory = .allocate(byteCount: max(1, capacity), alignment: 16)
  }

  deinit { memory.deallocate() }

  public var capacity: Int { memory.count }

  /// What was read last.
  public var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }

  /// Has `body` fill at most `limit` bytes from the beginning, and tell how many it has filled.
  func fill(_ limit: Int, _ body: (UnsafeMutableRawBufferPointer, inout Int) -> Void) {
    count = 0
    var filled = 0
    body(UnsafeMutableRawBufferPointer(rebasing: memory[..<min(max(0, limit), memory.count)]), &filled)
    count = min(max(0, filled), memory.count)
  }
}
