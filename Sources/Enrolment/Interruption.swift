import Synchronization

/// Stops writing after a number of steps, as a crash would, so that tests can check the repair.
package final class Interruption: Sendable {
  private let left: Mutex<Int>

  package init(after steps: Int) { left = Mutex(steps) }

  /// Whether there were enough steps, so that no crash happened.
  package var isUnused: Bool { left.withLock { $0 > 0 } }

  static let error = AuthorityError("stopped here by a test")

  func step() throws(AuthorityError) {
    let isOver = left.withLock { left in
      left -= 1
      return left <= 0
    }
    if isOver { throw Self.error }
  }
}
