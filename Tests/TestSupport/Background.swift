import Foundation

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
