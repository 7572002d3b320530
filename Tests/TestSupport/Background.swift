import Foundation
import Glibc
import Synchronization

/// A thread that can be waited for.
final class Background: Sendable {
  private let ended = DispatchSemaphore(value: 0)

  init(_ body: @escaping @Sendable () -> Void) {
    let ended = ended
    Thread.detachNewThread {
      body()
      ended.signal()
    }
  }

  func join() { ended.wait() }
}

/// Raised once, seen by other threads.
package final class Flag: Sendable {
  private let raised = Mutex(false)
  package init() {}
  package func raise() { raised.withLock { $0 = true } }
  package var isRaised: Bool { raised.withLock { $0 } }
  /// Blocks a script's thread until it is raised, for 20 seconds at most.
  package func wait() {
    for _ in 0..<10_000 where !isRaised { usleep(2000) }
  }
}
