import Identity
import Observability
import TLS
import Language

/// Errors in a server's rules about client identity. Each case is one rule; a level is the server or a location in it.
enum ClientIdentityRule: CaseIterable {
  case rulesWithoutVerification
  case identityWithoutVerification
  case identityFieldSetByHand
  case locationRulesBehindHandshake

  static func diagnostics(_ facts: ServerTLSFacts) -> [Diagnostic] {
    levels(facts.scope).flatMap { level in
      allCases.compactMap { $0.diagnostic(level, isServer: level === facts.scope, facts) }
    }
  }

  private static func levels(_ scope: Scope) -> [Scope] {
    [scope] + scope.ownLocations.flatMap { levels(Scope($0.block ?? [], outer: scope)) }
  }

  private func diagnostic(_ level: Scope, isServer: Bool, _ facts: ServerTLSFacts) -> Diagnostic? {
    switch self {
    case .rulesWithoutVerification:
      // Without client certificates, inherited deny rules have no effect; allow rules would admit no client.
      guard let line = (ClientAccess.allowing(level).all + ClientAccess.denying(level)).first else { return nil }
      return facts.unasked(
        line, hint: "ssl_verify_client on or optional; move rules for some servers into those servers")
    case .identityWithoutVerification:
      guard let line = ClientIdentity.line(level).own, ClientIdentity.form(level) != .off else { return nil }
      return facts.unasked(line, hint: "ssl_verify_client on or optional, or client_identity off")
    case .identityFieldSetByHand:
      guard UpstreamPass.forwards(level), ClientIdentity.form(level) != .off,
        let other = ClientIdentity.line(level).inEffect
      else { return nil }
      let names = IdentityFieldForm.names.map { $0.lowercased() }
      let line = Features.ofUpstream(.http).flatMap { $0.view(level).setFieldLines }.first {
        names.contains($0.text(0).lowercased())
      }
      return line.map {
        Diagnostic(
          .error, at: $0.location, "\"\($0.text(0))\" is set here and by client_identity",
          hint: "remove one of the two; the other is at \(other.location)")
      }
    case .locationRulesBehindHandshake:
      guard !isServer, facts.tls?.rejection == .handshake, !ClientAccess.allowing(facts.scope).all.isEmpty,
        let line = ClientAccess.allowing(level).own.first
      else { return nil }
      return Diagnostic(
        .warning, at: line.location,
        "a client that the server's ssl_client_allow denies never reaches this location's ssl_client_allow",
        hint: "with ssl_verify_reject handshake, the server's rules apply before a location is selected")
    }
  }
}
