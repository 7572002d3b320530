import Identity
import Observability
import TLS
import Language

extension SettingsBuilder {
  /// Builds the rules of `ssl_client_allow` and `ssl_client_deny`. Each of the two directives is inherited separately.
  mutating func clientRules(_ scope: Scope) -> ClientRules? {
    let allow = scope.list(ClientRule.Effect.allow.rawValue), deny = scope.list(ClientRule.Effect.deny.rawValue)
    let places = (allow + deny).map(\.location)
    if let known = clientRules[places] { return known }
    let rules = ClientRules(allow: rules(.allow, allow), deny: rules(.deny, deny))
    clientRules[places] = .some(rules)
    return rules
  }

  private mutating func rules(_ effect: ClientRule.Effect, _ lines: [Directive]) -> [ClientRule] {
    lines.compactMap { line in
      let words = line.arguments.map { (text: $0.text, location: $0.location) }
      let (rule, faults) = ClientRule.parse(effect, words, at: line.location)
      diagnostics += faults
      return rule
    }
  }
}

extension Scope {
  /// The form of the identity fields that `client_identity` selects.
  var identityForm: IdentityFieldForm {
    text("client_identity").flatMap { IdentityFieldForm(rawValue: $0.lowercased()) } ?? .off
  }
}
