import Identity
import Patterns

/// `ssl_client_allow` and `ssl_client_deny`. These rules are not a step of the access phase, so that no `satisfy` and
/// no password can override them (docs/SECURITY.md).
enum AccessRules {
  /// The reason why the location's rules deny the client, for the error log; nil if the rules admit the client.
  static func denial(
    of facts: ConnectionFacts, at location: LiveLocation, scratch: RegularExpression.Scratch
  ) -> String? {
    guard let rules = location.settings.clientRules,
      case .denied(let place, let reason) = facts.judge(by: rules, scratch: scratch)
    else { return nil }
    return ClientRules.message(place, reason)
  }
}
