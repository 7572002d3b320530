/// Bytes of a message that wait for their peer. The budget counts the memory that they take, also of bytes that have
/// gone while others of the same piece wait.
public struct WaitingBytes: ~Copyable {
  private var buffer = ByteBuffer()
  /// nil: nobody counts them.
  private let budget: BodyMemoryBudget?
  private var counted = 0

  /// Memory that an empty buffer keeps for the next bytes.
  private static let storageKept = 16 * 1024

  public init(in budget: BodyMemoryBudget?) { self.budget = budget }

  deinit { budget?.giveBack(counted) }

  public var count: Int { buffer.count }
  public var isEmpty: Bool { buffer.isEmpty }
  /// Valid until the next mutating call.
  public var readable: UnsafeRawBufferPointer { buffer.readable }

  public mutating func append(_ bytes: UnsafeRawBufferPointer) {
    buffer.append(bytes)
    countStorage()
  }

  /// Removes `n` bytes from the front.
  public mutating func consume(_ n: Int) {
    buffer.consume(n)
    if buffer.isEmpty, buffer.storageSize > Self.storageKept { release() }
  }

  /// Removes all bytes and frees the memory.
  public mutating func release() {
    buffer.release()
    countStorage()
  }

  private mutating func countStorage() {
    guard let budget, buffer.storageSize != counted else { return }
    budget.giveBack(counted)
    counted = buffer.storageSize
    budget.take(counted)
  }
}

/// Bytes that a budget counts until nothing refers to this any more: those that a thread reads for a response, and those
/// that it has read and the loop has not taken yet. For objects of one loop.
public final class BodyMemoryShare {
  private let budget: BodyMemoryBudget
  public let count: Int

  /// As many bytes as `wanted`, or fewer while the budget's limit is reached.
  public init(of budget: BodyMemoryBudget, wanted: Int) {
    self.budget = budget
    count = budget.bound(wanted)
    budget.take(count)
  }

  deinit { budget.giveBack(count) }
}
