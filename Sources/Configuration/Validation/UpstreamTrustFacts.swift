import Crypto
import Observability
import Proxy
import TLS
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

/// One PIN of a `proxy_ssl_pin` line.
struct SaidPin {
  var word: Word
  var spelling: Pin.Spelling
  var scope: Pin.Scope
}

/// What is in effect for a location's upstream, and what follows from it (docs/SECURITY.md, *Trust in upstreams*).
struct UpstreamTrustFacts {
  let scheme: UpstreamScheme
  let pass: Directive
  var verify: Said<Bool>?
  var trustSystem: Said<Bool>?
  var verifyName: Said<Bool>?
  var allowInvalid: Said<Bool>?
  var reportOnly: Said<Bool>?
  var trustedCertificate: Directive?
  var pinning: Said<String>?
  var pins: [SaidPin] = []
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

  /// `public_key` as soon as a pin is given, and `certificate` when all of them are hashes of certificates.
  var mode: PinningMode {
    if let pinning, let said = PinningMode(rawValue: pinning.value) { return said }
    return !pins.isEmpty && pins.allSatisfy({ $0.spelling == .certificateHash }) ? .certificate : .publicKey
  }

  var saysTrust: Bool {
    !pins.isEmpty || trustedCertificate != nil || trustSystem?.value == true || allowInvalid?.value == true
  }
  /// What we show is said with variables, and so another with each request.
  var identityHasVariables: Bool {
    certificate != nil && [certificate, certificateKey].contains { $0?.text(0).contains("$") == true }
  }
  /// Aloud.
  var isUnverified: Bool { verify?.value == false }
  var verifiesChain: Bool { verify?.value ?? saysTrust }
  /// A pin may stand in for the chain.
  var excusesChain: Bool { isPinned && (isUnverified || allowInvalid?.value == true) }
  /// On where the chain counts; with a pin alone only when asked.
  var verifiesName: Bool { verifiesChain ? verifyName?.value ?? true : isPinned && verifyName?.value == true }
  /// The system's anchors, unless a file was given.
  var trustsSystem: Bool { verifiesChain && (trustSystem?.value ?? (trustedCertificate == nil)) }
  /// Mode `certificate`: a certificate file is an anchor by itself.
  var pinsAreAnchors: Bool { isPinned && mode == .certificate && pins.contains { $0.spelling == .file } }

  func settings(trusted: MaterialReference?, pins: [PinSource]) -> TrustSettings {
    let anchors = AnchorSettings(file: trusted, includesSystem: trustsSystem)
    guard isPinned else { return verifiesChain ? .verified(anchors, checksName: verifiesName) : .anybody }
    let pins = PinSettings(mode: mode, sources: pins)
    if excusesChain { return .pinnedLeaf(pins, isUnverified ? nil : anchors, checksName: verifiesName) }
    return .pinned(pins, anchors, checksName: verifiesName, reportsOnly: reportOnly?.value == true)
  }
}
