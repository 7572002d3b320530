import Synchronization

/// Stops writing after so many steps, as a crash would: for tests of what is found afterwards.
package final class Interruption: Sendable {
  private let left: Mutex<Int>

  package init(after steps: Int) { left = Mutex(steps) }

  /// Whether the steps sufficed: no crash happened.
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
