import CLinux
import DequeModule
import Glibc
import Synchronization

/// Blocks for a loop from other threads. A block on the loop's queue would wait up to 20 ms; the mailbox wakes the
/// loop.
final class Mailbox: Sendable {
  let descriptor: Int32
  private let blocks = Mutex(Deque<@Sendable () -> Void>())

  init() throws(SocketError) {
    descriptor = linux_eventfd()
    guard descriptor >= 0 else { throw SocketError("eventfd", errno) }
  }

  deinit { Glibc.close(descriptor) }

  func post(_ block: @escaping @Sendable () -> Void) {
    blocks.withLock { $0.append(block) }
    wake()
  }

  private func wake() {
    var one: UInt64 = 1
    _ = Glibc.write(descriptor, &one, 8)
  }

  func removeAll() {
    // What a block holds may post another one while it goes.
    let dropped = blocks.withLock { blocks in
      defer { blocks.removeAll() }
      return blocks
    }
    withExtendedLifetime(dropped) {}
  }

  /// The oldest blocks, at most `most`. While more are left, the descriptor stays readable.
  func take(atMost most: Int) -> [@Sendable () -> Void] {
    var count: UInt64 = 0
    // Before the blocks are taken: a block that comes after them makes the descriptor readable again.
    _ = Glibc.read(descriptor, &count, 8)
    let (taken, isEmpty) = blocks.withLock { blocks in
      let taken = Array(blocks.prefix(most))
      blocks.removeFirst(taken.count)
      return (taken, blocks.isEmpty)
    }
    if !isEmpty { wake() }
    return taken
  }
}
