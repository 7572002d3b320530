public import Crypto

/// What an upstream must show before a byte of a request goes out (docs/SECURITY.md, *Trust in upstreams*).
///
/// Why an enum: what must not be combined can't be. No chain is excused without a pin, a mismatch is only reported
/// where the chain still counts, and an anchor is there wherever a chain must verify. Settings name files
/// (`TrustSettings`), a policy has them loaded (`TrustPolicy`).
public enum TrustTerms<Anchors, Pins> {
  /// `proxy_ssl_verify off` and no pin, said aloud.
  case anybody
  /// The chain must verify; nothing is pinned.
  case verified(Anchors, checksName: Bool)
  /// The chain must verify, and a pin must match; or its mismatch is only reported (`proxy_ssl_pin_report_only`).
  case pinned(Pins, Anchors, checksName: Bool, reportsOnly: Bool)
  /// A pin of the leaf counts although the chain does not verify (`proxy_ssl_allow_invalid`); without anchors it is not
  /// looked at (`proxy_ssl_verify off`).
  case pinnedLeaf(Pins, Anchors?, checksName: Bool)
}

extension TrustTerms: Sendable where Anchors: Sendable, Pins: Sendable {}
extension TrustTerms: Equatable where Anchors: Equatable, Pins: Equatable {}
extension TrustTerms: Hashable where Anchors: Hashable, Pins: Hashable {}

/// As configured, files named and not read. Equal terms are the same trust, unequal ones never share a connection.
public typealias TrustSettings = TrustTerms<AnchorSettings, PinSettings>
/// As loaded: what an upstream is judged by.
public typealias TrustPolicy = TrustTerms<TrustAnchors, PinSet>

extension TrustTerms {
  public var anchors: Anchors? {
    switch self {
    case .anybody: nil
    case .verified(let anchors, _), .pinned(_, let anchors, _, _): anchors
    case .pinnedLeaf(_, let anchors, _): anchors
    }
  }

  public var pins: Pins? {
    switch self {
    case .anybody, .verified: nil
    case .pinned(let pins, _, _, _), .pinnedLeaf(let pins, _, _): pins
    }
  }

  public var checksName: Bool {
    switch self {
    case .anybody: false
    case .verified(_, let checksName), .pinned(_, _, let checksName, _), .pinnedLeaf(_, _, let checksName): checksName
    }
  }
}

/// Where the anchors of an upstream come from: one file, the system, or both. From nowhere no chain verifies.
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

/// `proxy_ssl_pinning` with the pins as spelt, in order: a pin may be a file, which the daemon loads.
public struct PinSettings: Sendable, Hashable {
  public var mode: PinningMode
  public var sources: [PinSource]

  public init(mode: PinningMode, sources: [PinSource]) {
    self.mode = mode
    self.sources = sources
  }
}
