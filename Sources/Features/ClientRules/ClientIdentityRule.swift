import Crypto
import Forward
import Identity
import Language
import Observability
import TLS
import Traffic

/// Errors in a server's rules about client identity. Each case is one rule; a level is the server or a location in it.
enum ClientIdentityRule: CaseIterable {
  case rulesWithoutVerification
  case identityWithoutVerification
  case identityFieldSetByHand
  case locationRulesBehindHandshake
  case identityOfPinsAlone
  case everybodyOfBundles

  static func diagnostics(_ block: ServerBlock, _ features: FeatureDirectives) -> [Diagnostic] {
    levels(block.scope).flatMap { level in
      allCases.compactMap { $0.diagnostic(level, isServer: level === block.scope, block, features) }
    }
  }

  private static func levels(_ scope: Scope) -> [Scope] {
    [scope] + scope.ownLocations.flatMap { levels(Scope($0.block ?? [], outer: scope)) }
  }

  private func diagnostic(
    _ level: Scope, isServer: Bool, _ block: ServerBlock, _ features: FeatureDirectives
  ) -> Diagnostic? {
    switch self {
    case .rulesWithoutVerification:
      // Without client certificates, inherited deny rules have no effect; allow rules would admit no client.
      guard let line = (ClientAccess.allowing(level).all + ClientAccess.denying(level)).first else { return nil }
      return block.unasked(
        line, hint: "ssl_verify_client on or optional; move rules for some servers into those servers")
    case .identityWithoutVerification:
      guard let line = ClientIdentity.line(level).own, ClientIdentity.form(level) != .off else { return nil }
      return block.unasked(line, hint: "ssl_verify_client on or optional, or client_identity off")
    case .identityFieldSetByHand:
      guard UpstreamPass.forwards(level, features), ClientIdentity.form(level) != .off,
        let other = ClientIdentity.line(level).inEffect
      else { return nil }
      var names = IdentityFieldForm.names.map { $0.lowercased() }
      if ClientIdentity.form(level) == .signed { names += SignatureSigning.signatureFields.map { $0.lowercased() } }
      let line = features.ofUpstream(.http).flatMap { $0.view(level).setFieldLines }.first {
        names.contains($0.text(0).lowercased())
      }
      return line.map {
        Diagnostic(
          .error, at: $0.location, "\"\($0.text(0))\" is set here and by client_identity",
          hint: "remove one of the two; the other is at \(other.location)")
      }
    case .locationRulesBehindHandshake:
      guard !isServer, block.tls?.rejection == .handshake, !ClientAccess.allowing(block.scope).all.isEmpty,
        let line = ClientAccess.allowing(level).own.first
      else { return nil }
      return Diagnostic(
        .warning, at: line.location,
        "a client that the server's ssl_client_allow denies never reaches this location's ssl_client_allow",
        hint: "with ssl_verify_reject handshake, the server's rules apply before a location is selected")
    case .identityOfPinsAlone:
      guard isServer, block.vouchesForNoNames, let line = ClientIdentity.line(level).inEffect,
        ClientIdentity.form(level) != .off
      else { return nil }
      return Diagnostic(
        .warning, at: line.location,
        "\"client_identity\" tells upstreams of no client: a pin alone does not vouch for what a certificate says",
        hint: "proxy_set_header NAME $ssl_client_spki; tells the key, for which the pin vouches")
    case .everybodyOfBundles:
      guard isServer, let tls = block.tls, tls.workloadTrust != nil, tls.verification != .off,
        !ClientAccess.isRestricted(level)
      else { return nil }
      return Diagnostic(
        .warning, at: tls.clientCertificate?.location ?? block.place,
        "every workload of these trust domains gets in: no rule says which IDs may",
        hint: "\(ClientAccess.exampleOfID)")
    }
  }
}
