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
  /// Blocks a script's thread until it is raised; five minutes at most, so that a test that fails leaves no thread behind.
  /// Not less: under a sanitizer on a busy machine a test may wait for a minute until it goes on.
  package func wait() {
    for _ in 0..<150_000 {
      if isRaised { return }
      usleep(2000)
    }
  }
}
