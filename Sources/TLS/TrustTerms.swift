public import Crypto
public import SPIFFE

/// What the policy demands of an upstream before a byte of a request goes out (docs/SECURITY.md, *Trust in upstreams*).
///
/// This is an enum so that forbidden combinations can't be written. A chain is excused only with a pin. A mismatch is
/// only reported where the chain still counts. Anchors exist wherever a chain must verify. Settings name files
/// (`TrustSettings`), a policy has loaded them (`TrustPolicy`).
public enum TrustTerms<Anchors, Pins, Bundles> {
  /// `proxy_ssl_verify off` without a pin, which the configuration must say explicitly.
  case anybody
  /// The chain must verify; there are no pins.
  case verified(Anchors, checksName: Bool)
  /// The chain must verify and a pin must match. With `reportsOnly` a mismatch is only reported
  /// (`proxy_ssl_pin_report_only`).
  case pinned(Pins, Anchors, checksName: Bool, reportsOnly: Bool)
  /// A pin of the leaf suffices although the chain does not verify (`proxy_ssl_allow_invalid`). Without anchors the
  /// chain is not checked at all (`proxy_ssl_verify off`).
  case pinnedLeaf(Pins, Anchors?, checksName: Bool)
  /// The upstream must show an SVID that verifies by the bundle of its own trust domain, and one of these IDs. Its DNS
  /// names don't count: an SVID needs none.
  case workload(Bundles, ids: [SPIFFEIDPattern])
}

extension TrustTerms: Sendable where Anchors: Sendable, Pins: Sendable, Bundles: Sendable {}
extension TrustTerms: Equatable where Anchors: Equatable, Pins: Equatable, Bundles: Equatable {}
extension TrustTerms: Hashable where Anchors: Hashable, Pins: Hashable, Bundles: Hashable {}

/// The terms as configured: files are named, not read. Equal terms mean equal trust; unequal terms never share a
/// connection.
public typealias TrustSettings = TrustTerms<AnchorSettings, PinSettings, WorkloadTrust>
/// The terms as loaded: the policy that judges upstreams.
public typealias TrustPolicy = TrustTerms<TrustAnchors, PinSet, TrustBundles>

extension TrustTerms {
  public var anchors: Anchors? {
    switch self {
    case .anybody, .workload: nil
    case .verified(let anchors, _), .pinned(_, let anchors, _, _): anchors
    case .pinnedLeaf(_, let anchors, _): anchors
    }
  }

  public var pins: Pins? {
    switch self {
    case .anybody, .verified, .workload: nil
    case .pinned(let pins, _, _, _), .pinnedLeaf(let pins, _, _): pins
    }
  }

  public var bundles: Bundles? { if case .workload(let bundles, _) = self { bundles } else { nil } }

  public var checksName: Bool {
    switch self {
    case .anybody, .workload: false
    case .verified(_, let checksName), .pinned(_, _, let checksName, _), .pinnedLeaf(_, _, let checksName): checksName
    }
  }
}

/// Where the trust anchors for an upstream come from: a file, the system, or both. Without either, no chain verifies.
public struct AnchorSettings: Sendable, Hashable {
  /// `proxy_ssl_trusted_certificate`
  public var file: MaterialReference?
  /// `proxy_ssl_trust_system`
  public var includesSystem: Bool

  public init(file: MaterialReference?, includesSystem: Bool) {
    self.file = file
    self.includesSystem = includesSystem
  }
}

/// `proxy_ssl_pinning` or `ssl_client_pinning` with the pins as written, in order. A pin may name a file, which the daemon
/// loads.
public struct PinSettings: Sendable, Hashable {
  public var mode: PinningMode
  public var sources: [PinSource]

  public init(mode: PinningMode, sources: [PinSource]) {
    self.mode = mode
    self.sources = sources
  }
}
