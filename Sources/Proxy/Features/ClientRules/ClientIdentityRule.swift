import Identity
import Observability
import TLS
import Language

/// Errors in a server's rules about client identity. Each case is one rule; a level is the server or a location in it.
enum ClientIdentityRule: CaseIterable {
  case rulesWithoutVerification
  case identityWithoutVerification
  case rejectionWithoutVerification
  case reportWithoutVerification
  case reportBesideRejection
  case identityFieldSetByHand
  case locationRulesBehindHandshake

  static func diagnostics(_ facts: ServerTLSFacts) -> [Diagnostic] {
    levels(facts.scope).flatMap { level in
      allCases.compactMap { $0.diagnostic(level, isServer: level === facts.scope, facts) }
    }
  }

  private static func levels(_ scope: Scope) -> [Scope] {
    [scope] + scope.own("location").flatMap { levels(Scope($0.block ?? [], outer: scope)) }
  }

  private func diagnostic(_ level: Scope, isServer: Bool, _ facts: ServerTLSFacts) -> Diagnostic? {
    switch self {
    case .rulesWithoutVerification:
      // Without client certificates, inherited deny rules have no effect; allow rules would admit no client.
      guard let line = (level.list("ssl_client_allow") + level.own("ssl_client_deny")).first else { return nil }
      return facts.unasked(
        line, hint: "ssl_verify_client on or optional; move rules for some servers into those servers")
    case .identityWithoutVerification:
      guard let line = level.own("client_identity").last, level.identityForm != .off else { return nil }
      return facts.unasked(line, hint: "ssl_verify_client on or optional, or client_identity off")
    case .rejectionWithoutVerification:
      guard let line = level.own("ssl_verify_reject").last, line.text(0).lowercased() == "handshake" else { return nil }
      return facts.unasked(line, hint: "ssl_verify_client on, or optional")
    case .reportWithoutVerification:
      guard let line = level.own("ssl_verify_report_only").last, level.flag("ssl_verify_report_only") == true else {
        return nil
      }
      return facts.unasked(line, hint: "ssl_verify_client on, or optional")
    case .reportBesideRejection:
      guard isServer, level.flag("ssl_verify_report_only") == true, let line = level.value("ssl_verify_report_only"),
        let other = level.value("ssl_verify_reject"), other.text(0).lowercased() == "handshake"
      else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"ssl_verify_report_only on\" beside \"ssl_verify_reject handshake\"",
        hint:
          "a client that is only reported is refused in no way: remove one of the two; the other is at \(other.location)"
      )
    case .identityFieldSetByHand:
      guard !(level.own("proxy_pass") + level.own("grpc_pass")).isEmpty, level.identityForm != .off,
        let other = level.value("client_identity")
      else { return nil }
      let names = IdentityFieldForm.names.map { $0.lowercased() }
      let line = (level.list("proxy_set_header") + level.list("grpc_set_header")).first {
        names.contains($0.text(0).lowercased())
      }
      return line.map {
        Diagnostic(
          .error, at: $0.location, "\"\($0.text(0))\" is set here and by client_identity",
          hint: "remove one of the two; the other is at \(other.location)")
      }
    case .locationRulesBehindHandshake:
      guard !isServer, facts.tls?.rejection == .handshake, !facts.scope.list("ssl_client_allow").isEmpty,
        let line = level.own("ssl_client_allow").first
      else { return nil }
      return Diagnostic(
        .warning, at: line.location,
        "a client that the server's ssl_client_allow denies never reaches this location's ssl_client_allow",
        hint: "with ssl_verify_reject handshake, the server's rules apply before a location is selected")
    }
  }
}

extension ServerTLSFacts {
  /// Returns an error if the server never requests a certificate from a client.
  fileprivate func unasked(_ line: Directive, hint: String) -> Diagnostic? {
    // A server that refuses every handshake has no clients, so the rule does not apply.
    if let tls, tls.rejectsHandshake, !alsoPlain { return nil }
    let reason: String
    switch tls?.verification {
    case nil: reason = "has no listen with ssl"
    case .off: reason = "says ssl_verify_client off"
    case .on, .optional, .optionalNoCA: return nil
    }
    return Diagnostic(
      .error, at: line.location,
      "\"\(line.name)\" needs client certificates, but the server at \(place) \(reason)",
      hint: hint)
  }
}
