import Observability
import Proxy
import Upstream

/// A value that somebody wrote, and where.
struct Said<Value> {
  var value: Value
  var directive: Directive

  init?(_ directive: Directive?, _ value: Value?) {
    guard let directive, let value else { return nil }
    self.value = value
    self.directive = directive
  }
}

/// What is in effect for a location's upstream, and what follows from it (trust-and-identity.md §2).
struct UpstreamTrustFacts {
  let scheme: UpstreamScheme
  let pass: Directive
  var verify: Said<Bool>?
  var trustSystem: Said<Bool>?
  var verifyName: Said<Bool>?
  var trustedCertificate: Directive?
  var pinning: Said<String>?
  var pins: [Directive] = []
  var certificate: Directive?
  var revocation: Directive?
  var certificateKey: Directive?
  /// The first `proxy_ssl_…` of the location itself.
  var ownTLSLine: Directive?
  var group: UpstreamGroupSettings?
  /// The `upstream` block whose name stands in for a host's, `proxy_ssl_name` not being said.
  var namedGroup: UpstreamGroupSettings?

  init(scheme: UpstreamScheme, pass: Directive) {
    self.scheme = scheme
    self.pass = pass
  }

  var isPinned: Bool { !pins.isEmpty && pinning?.value != "none" }
  var saysTrust: Bool { !pins.isEmpty || trustedCertificate != nil || trustSystem?.value == true }
  var verifiesChain: Bool { verify?.value ?? saysTrust }
  /// On where the chain is; with a pin alone only when asked.
  var verifiesName: Bool { verifiesChain ? verifyName?.value ?? true : isPinned && verifyName?.value == true }
  /// The system's anchors, unless a file was given.
  var trustsSystem: Bool { verifiesChain && (trustSystem?.value ?? (trustedCertificate == nil)) }
}
