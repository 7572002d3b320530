public import Synchronization

/// A row of counts that one thread writes and any thread reads.
///
/// A count is a load and a store without a lock, and the row has cache lines of its own, so that no worker waits for
/// another one. Counts wrap round at 2⁶⁴. An index outside the row changes nothing.
///
/// @unchecked: the cells are atomic, and their memory lives as long as the row.
public final class CountRow: @unchecked Sendable {
  @usableFromInline let cells: UnsafeMutablePointer<Atomic<UInt64>>
  public let count: Int

  public init(_ count: Int) {
    let line = 64
    let size = max(1, count) * MemoryLayout<Atomic<UInt64>>.stride
    cells = UnsafeMutableRawPointer.allocate(byteCount: (size + line - 1) / line * line, alignment: line)
      .bindMemory(to: Atomic<UInt64>.self, capacity: max(1, count))
    for index in 0..<count { (cells + index).initialize(to: Atomic(0)) }
    self.count = count
  }

  deinit {
    cells.deinitialize(count: count)
    UnsafeMutableRawPointer(cells).deallocate()
  }

  /// Only for the thread that owns the row.
  @inlinable
  public func add(_ amount: UInt64 = 1, at index: Int) {
    guard index >= 0, index < count else { return }
    cells[index].store(cells[index].load(ordering: .relaxed) &+ amount, ordering: .relaxed)
  }

  /// For a value that rises and falls. Only for the thread that owns the row.
  @inlinable
  public func set(_ value: UInt64, at index: Int) {
    guard index >= 0, index < count else { return }
    cells[index].store(value, ordering: .relaxed)
  }

  @inlinable
  public func value(at index: Int) -> UInt64 {
    guard index >= 0, index < count else { return 0 }
    return cells[index].load(ordering: .relaxed)
  }
}
