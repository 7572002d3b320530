import Patterns

/// One `KEY=PATTERN` of a rule.
struct IdentityCondition: Sendable {
  private enum Test: Sendable {
    case pattern(ValuePattern)
    /// The expression must match the whole value.
    case expression(RegularExpression)
    case octets([UInt8])
  }

  let key: IdentityKey
  private let test: Test

  /// Parses one argument. A condition that could never match is a fault: in a deny rule it would let every client in.
  init(parsing word: String) throws(RuleError) {
    guard let equals = word.firstIndex(of: "=") else {
      throw RuleError("\"\(word)\" is no rule", hint: "KEY=PATTERN, as cn=alice or uri=spiffe://prod/**")
    }
    let name = String(word[..<equals]), value = String(word[word.index(after: equals)...])
    guard let key = IdentityKey(rawValue: name) else {
      let keys = IdentityKey.allCases.map(\.rawValue)
      let meant = keys.contains(name.lowercased()) ? "write \"\(name.lowercased())\"" : nil
      throw RuleError("unknown key \"\(name)\"", hint: meant ?? "one of \(keys.joined(separator: ", "))")
    }
    guard !value.isEmpty else { throw RuleError("\"\(name)=\" has no value", hint: "\(name)=** is any value") }
    guard !value.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
      throw RuleError("a control character in \"\(name)\"", hint: "a value with one matches no rule")
    }
    self.key = key
    switch key {
    case .fingerprint, .spki:
      test = .octets(try RuleDigest.parse(value, key))
    case _ where value.hasPrefix("~"):
      test = .expression(try RuleValue.expression(String(value.dropFirst()), key))
    default:
      guard let pattern = ValuePattern(try RuleValue.canonical(value, key)) else {
        throw RuleError("\"***\" in \"\(word)\"", hint: "\"*\" is one label, \"**\" is many")
      }
      test = .pattern(pattern)
    }
  }

  /// A value that matches and is fit; nil: none is found. `texts`: what may stand for a wildcard.
  func witness(filling texts: [String], _ isFit: (IdentityKey, String) -> Bool) -> String? {
    func isFitText(_ value: [UInt8]) -> Bool { isFit(key, String(decoding: value, as: UTF8.self)) }
    let found: [UInt8]? =
      switch test {
      case .pattern(let pattern): pattern.witness(filling: texts, isFitText)
      case .expression(let expression): expression.witness(isFitText)
      case .octets: nil
      }
    return found.map { String(decoding: $0, as: UTF8.self) }
  }

  /// Whether any value of the identity matches. Returns `limit` if no value matched and a regular expression reached
  /// its limit.
  func match(_ identity: PeerIdentity, scratch: RegularExpression.Scratch) -> MatchOutcome {
    var outcome = MatchOutcome.noMatch
    for value in identity[key].all {
      switch test {
      case .pattern(let pattern): if pattern.matches(value) { return .match }
      case .octets(let octets): if octets == value { return .match }
      case .expression(let expression):
        var captures = Captures()
        switch value.withUnsafeBytes({ expression.match($0, scratch: scratch, into: &captures) }) {
        case .match: return .match
        case .limit: outcome = .limit
        case .noMatch: break
        }
      }
    }
    return outcome
  }
}

/// Why a rule is invalid, and what to write.
struct RuleError: Error, Sendable {
  let message: String
  let hint: String

  init(_ message: String, hint: String) {
    self.message = message
    self.hint = hint
  }
}
