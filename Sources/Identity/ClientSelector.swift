package import Patterns

/// One pattern of `ssl_client_allow`, or `*`, that picks clients: the first word of a line of `proxy_auth_user_file`.
package struct ClientSelector: Sendable {
  package typealias Client = ClientRules.Client

  package enum Outcome: Sendable, Hashable {
    case match, noMatch
    /// A value is not what it looks like, or an expression gave up: whether it matches can't be said.
    case undecided(String)
  }

  /// nil: everybody.
  private let condition: IdentityCondition?

  /// nil: no selector. Why is not said, for what should be one may be a password.
  package init?(parsing text: String) {
    if text == "*" {
      condition = nil
    } else {
      guard let parsed = try? IdentityCondition(parsing: text) else { return nil }
      condition = parsed
    }
  }

  package func match(_ client: Client, scratch: RegularExpression.Scratch) -> Outcome {
    switch (client, condition) {
    // Who shows what does not verify is not who shows nothing.
    case (.refused, _): return .noMatch
    case (_, nil): return .match
    case (.anonymous, .some): return .noMatch
    case (.known(let identity), let condition?):
      if let fault = identity[condition.key].fault {
        return .undecided("the certificate's \(condition.key.rawValue) \(fault.rawValue)")
      }
      switch condition.match(identity, scratch: scratch) {
      case .match: return .match
      case .noMatch: return .noMatch
      case .limit: return .undecided("a regular expression gave up")
      }
    }
  }
}
