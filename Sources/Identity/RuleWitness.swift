import Patterns

extension ClientRule {
  /// Values of a client that the rule matches, one for each condition; nil: a condition is one for which no value can be
  /// made up, as a hash, or for which none is found. The rule's own conditions judge the values.
  ///
  /// `texts`: what may stand for a wildcard. `isFit`: whether the caller can use a value.
  package func witness(
    filling texts: [String] = ["x"], _ isFit: (IdentityKey, String) -> Bool = { _, _ in true }
  ) -> [(key: IdentityKey, value: String)]? {
    var values: [(key: IdentityKey, value: String)] = []
    for condition in conditions {
      guard let value = condition.witness(filling: texts, isFit) else { return nil }
      values.append((condition.key, value))
    }
    return values
  }
}
