import Patterns

extension ClientRule {
  /// Values of a client that the rule matches, one for each condition; nil: a condition is one for which no value can be
  /// made up, as a hash, or for which none is found. The rule's own conditions judge the values.
  package func witness() -> [(key: IdentityKey, value: String)]? {
    var values: [(key: IdentityKey, value: String)] = []
    for condition in conditions {
      guard let value = condition.witness() else { return nil }
      values.append((condition.key, value))
    }
    return values
  }
}
