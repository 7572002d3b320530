/// Why the proxy refused an upstream; the log, a variable and a metric show it.
public enum UpstreamRefusal: Error, Sendable, Hashable, CustomStringConvertible {
  case chain(String)
  case expired(String)
  case revoked(String)
  case name(expected: String)
  /// `found`: the upstream's certificate in the spelling of a pin. `isVerified`: its chain verifies, and its name if it was
  /// checked, so that the pin alone keeps it out.
  case pin(found: String, isVerified: Bool = false)

  public var outcome: TrustOutcome {
    switch self {
    case .chain: .chain
    case .expired: .expired
    case .revoked: .revoked
    case .name: .name
    case .pin: .pin
    }
  }

  public var description: String {
    switch self {
    case .chain(let text), .expired(let text), .revoked(let text):
      "\(outcome.rawValue): upstream SSL certificate verify error: (\(text))"
    case .name(let expected): "name: upstream SSL certificate does not match \"\(expected)\""
    case .pin(let found, let isVerified):
      "pin: \(Self.mismatch(found: found))\(isVerified ? "; everything else about it verifies" : "")"
    }
  }

  /// Describes a pin that does not match, whether refused or only reported.
  static func mismatch(found: String) -> String {
    found.hasPrefix("cert:")
      ? "no certificate of the upstream's chain is pinned: its own is \(found)"
      : "the key of the upstream's certificate is not pinned: it is \(found)"
  }
}

/// The judgement of an upstream.
public enum TrustResult: Sendable, Hashable {
  /// `proxy_ssl_verify off` without a pin: any upstream is accepted.
  case unverified
  /// The chain verified, and so did every other check that the policy demands.
  case trusted
  /// The chain did not verify or was not checked; a pin of the leaf was enough.
  case trustedByPin
  /// The chain verified and no pin matched, which the policy only reports. `found`: as in a refusal.
  case reportOnlyMismatch(found: String)
  case refused(UpstreamRefusal)

  public var outcome: TrustOutcome {
    switch self {
    case .unverified: .unverified
    case .trusted: .trusted
    case .trustedByPin: .trustedByPin
    case .reportOnlyMismatch: .reportOnlyMismatch
    case .refused(let refusal): refusal.outcome
    }
  }

  /// The warning about an upstream that was accepted in spite of a fault; nil without a fault.
  public var warning: String? {
    guard case .reportOnlyMismatch(let found) = self else { return nil }
    return "report-only-mismatch: \(UpstreamRefusal.mismatch(found: found))"
  }
}

/// A result in one word, the value of $upstream_ssl_result. It holds no reference, so a request can copy it cheaply.
public enum TrustOutcome: String, Sendable, CaseIterable {
  /// Plain HTTP, or a handshake that did not complete.
  case none = ""
  case trusted
  case trustedByPin = "trusted-by-pin"
  case reportOnlyMismatch = "report-only-mismatch"
  case unverified
  // Refused
  case chain, expired, name, pin, revoked
  /// The handshake itself failed: no common protocol, cipher or SNI.
  case incompatible
}
