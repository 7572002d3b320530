package import Patterns

/// Selects clients by one condition of `ssl_client_allow` or by `*`: the first word of a line of
/// `proxy_auth_user_file`.
package struct ClientSelector: Sendable {
  package typealias Client = ClientRules.Client

  package enum Match: Sendable, Hashable {
    case match, noMatch
    /// The result is unknown: a value may not be what it seems, or a regular expression reached its limit.
    case undecided(String)
  }

  /// nil: every client.
  private let condition: IdentityCondition?

  /// Returns nil for a malformed selector. Gives no reason, because the text may be a password.
  package init?(parsing text: String) {
    if text == "*" {
      condition = nil
    } else {
      guard let parsed = try? IdentityCondition(parsing: text) else { return nil }
      condition = parsed
    }
  }

  package func match(_ client: Client, scratch: RegularExpression.Scratch) -> Match {
    switch (client, condition) {
    // A client whose certificate does not verify is not an anonymous client.
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
      case .limit: return .undecided("a regular expression reached its limit")
      }
    }
  }
}
