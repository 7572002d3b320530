import Dispatch

/// A thread for who writes one log by itself, beside the event loops. Work runs in the order in which it is given.
package final class LogThread: Sendable {
  private let queue: DispatchQueue

  package init() { queue = DispatchQueue(label: "sallyport.log.thread") }

  package func run(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

  package func run(in milliseconds: Int, _ work: @escaping @Sendable () -> Void) {
    queue.asyncAfter(deadline: .now() + .milliseconds(milliseconds), execute: work)
  }

  /// Runs work, and waits until it is done.
  package func runAndWait(_ work: () -> Void) { queue.sync(execute: work) }

  /// Runs work, and waits until it is done, for at most so many milliseconds.
  package func run(waiting milliseconds: Int, _ work: @escaping @Sendable () -> Void) {
    let done = DispatchSemaphore(value: 0)
    queue.async {
      work()
      done.signal()
    }
    _ = done.wait(timeout: .now() + .milliseconds(milliseconds))
  }
}
