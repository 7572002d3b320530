import Crypto
import Forward
import Language
import Observability
import SPIFFE
import TLS
import Traffic
import Upstream

/// A value from the configuration, and its place.
struct Said<Value> {
  var value: Value
  var directive: Directive

  init?(_ directive: Directive?, _ value: Value?) {
    guard let directive, let value else { return nil }
    self.value = value
    self.directive = directive
  }
}

extension Said<Bool> {
  /// What a line in effect says; nil: there is none.
  init?(_ row: some DirectiveRow, in scope: Scope) { self.init(row.line(in: scope), row.flag(in: scope)) }
}

/// The directives in effect for a location's upstream, and their consequences (docs/SECURITY.md, *Trust in upstreams*).
struct UpstreamTrustFacts {
  /// nil: each value of the target says it.
  let scheme: UpstreamScheme?
  /// Where there are no URLs, and `proxy_ssl` says whether an upstream gets TLS.
  let isOfStream: Bool
  let pass: Directive
  var verify: Said<Bool>?
  var trustSystem: Said<Bool>?
  var verifyName: Said<Bool>?
  var allowInvalid: Said<Bool>?
  var reportOnly: Said<Bool>?
  var trustedCertificate: Directive?
  var pinning: Said<String>?
  var pins: [SaidPin] = []
  var pinLine: Directive?
  /// `proxy_ssl_spiffe_id`
  var ids: [SPIFFEIDPattern] = []
  var idLine: Directive?
  /// nil: no bundles of the Workload API verify the upstream.
  var workloadTrust: WorkloadTrust?
  var certificate: Directive?
  var revocation: Directive?
  var certificateKey: Directive?
  /// The first `proxy_ssl_…` line of the location itself.
  var ownTLSLine: Directive?
  var group: UpstreamGroupSettings?
  /// The `upstream` block whose name the proxy uses as host name, because `proxy_ssl_name` is missing.
  var namedGroup: UpstreamGroupSettings?

  init(scheme: UpstreamScheme?, pass: Directive, isOfStream: Bool = false) {
    self.isOfStream = isOfStream
    self.scheme = scheme
    self.pass = pass
  }

  /// As in nginx, an empty name means that no certificate is presented, also where an outer level names one.
  static func presented(_ line: Directive?) -> Directive? { line?.text(0).isEmpty == true ? nil : line }

  var isPinned: Bool { !pins.isEmpty && pinning?.value != "none" }

  /// The pinning mode.
  var mode: PinningMode {
    if let pinning, let said = PinningMode(rawValue: pinning.value) { return said }
    return SaidPin.standardMode(of: pins)
  }

  /// Whether no directive says whom to trust. sallyport then sends no request over TLS.
  var saysNothing: Bool { verify == nil && !saysTrust && pinning?.value ?? "none" == "none" }
  /// Whether requests can go out over TLS, so that the directives about it must make sense.
  var mayUseTLS: Bool { scheme == .https || scheme == nil && !saysNothing }

  var saysTrust: Bool {
    !pins.isEmpty || trustedCertificate != nil || trustSystem?.value == true || allowInvalid?.value == true
  }
  /// Whether the certificate that sallyport presents depends on variables, and so on the request.
  var identityHasVariables: Bool {
    certificate != nil && [certificate, certificateKey].contains { $0?.text(0).contains("$") == true }
  }
  /// Whether the configuration turns verification off explicitly.
  var isUnverified: Bool { verify?.value == false }
  var verifiesChain: Bool { verify?.value ?? saysTrust }
  /// Whether a matching pin suffices without a valid chain.
  var excusesChain: Bool { isPinned && (isUnverified || allowInvalid?.value == true) }
  /// Whether the name is checked: by default if the chain is verified; with a pin alone, only if requested.
  var verifiesName: Bool {
    !isOfWorkload && (verifiesChain ? verifyName?.value ?? true : isPinned && verifyName?.value == true)
  }
  /// Whether the system's trust anchors count: by default, unless the configuration gives a file of anchors.
  var trustsSystem: Bool { verifiesChain && (trustSystem?.value ?? (trustedCertificate == nil)) }
  /// Whether a pinned certificate file is a trust anchor, which is so in mode `certificate`.
  var pinsAreAnchors: Bool { isPinned && mode == .certificate && pins.contains { $0.spelling == .file } }

  func settings(trusted: MaterialReference?, pins: [PinSource]) -> TrustSettings {
    if let workloadTrust { return .workload(workloadTrust, ids: ids) }
    let anchors = AnchorSettings(file: trusted, includesSystem: trustsSystem)
    guard isPinned else { return verifiesChain ? .verified(anchors, checksName: verifiesName) : .anybody }
    let pins = PinSettings(mode: mode, sources: pins)
    if excusesChain { return .pinnedLeaf(pins, isUnverified ? nil : anchors, checksName: verifiesName) }
    return .pinned(pins, anchors, checksName: verifiesName, reportsOnly: reportOnly?.value == true)
  }
}
