import CLinux
import Glibc
import Synchronization

/// Blocks for a loop from other threads. A block on the loop's queue would wait up to 20 ms; the mailbox wakes the
/// loop.
final class Mailbox: Sendable {
  let descriptor: Int32
  private let blocks = Mutex<[@Sendable () -> Void]>([])

  init() throws(SocketError) {
    descriptor = linux_eventfd()
    guard descriptor >= 0 else { throw SocketError("eventfd", errno) }
  }

  deinit { Glibc.close(descriptor) }

  func post(_ block: @escaping @Sendable () -> Void) {
    blocks.withLock { $0.append(block) }
    var one: UInt64 = 1
    _ = Glibc.write(descriptor, &one, 8)
  }

  func take() -> [@Sendable () -> Void] {
    var count: UInt64 = 0
    _ = Glibc.read(descriptor, &count, 8)
    return blocks.withLock {
      let taken = $0
      $0.removeAll()
      return taken
    }
  }
}
