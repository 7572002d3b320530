/// What the lines of a feature say of a computed variable, and what computes it.
package protocol LiveVariableSettings: ComputedSettings {
  /// The variable in one worker.
  func live(isVolatile: Bool, _ makers: LiveMakers) -> LiveVariable
}

/// A variable of `map`, `geo` or `split_clients` in one worker.
open class LiveVariable {
  /// Computed at each use, not once in a request.
  package final let isVolatile: Bool

  public init(isVolatile: Bool) { self.isVolatile = isVolatile }

  /// The value; nil if it can't be told, because a regular expression reached its limit.
  open func value(for transaction: Transaction) -> [UInt8]? { [] }
}

extension ComputedVariable {
  /// The variable in one worker.
  func live(_ makers: LiveMakers) -> LiveVariable? {
    (settings as? any LiveVariableSettings)?.live(isVolatile: isVolatile, makers)
  }
}
