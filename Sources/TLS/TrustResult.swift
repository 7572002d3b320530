/// Why an upstream was refused; one of these for the log, a variable and a metric.
public enum UpstreamRefusal: Error, Sendable, Hashable, CustomStringConvertible {
  case chain(String)
  case expired(String)
  case revoked(String)
  case name(expected: String)
  /// `found`: as a pin of the upstream's certificate would be spelt.
  case pin(found: String)

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
    case .pin(let found): "pin: \(Self.mismatch(found: found))"
    }
  }

  /// What is told of a pin that does not match, refused or only reported.
  static func mismatch(found: String) -> String {
    found.hasPrefix("cert:")
      ? "no certificate of the upstream's chain is a pinned one, its own is \(found)"
      : "the key of the upstream's certificate is none of the pinned ones, it is \(found)"
  }
}

/// How an upstream was judged.
public enum TrustResult: Sendable, Hashable {
  /// `proxy_ssl_verify off` and no pin: anybody.
  case unverified
  /// The chain verified, and what else was asked for held.
  case trusted
  /// The chain did not verify or was not looked at; a pinned leaf was enough.
  case trustedByPin
  /// The chain verified, no pin matched, and that is only reported. `found`: as in a refusal.
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

  /// What is told of one that was let in all the same; nil: nothing.
  public var warning: String? {
    guard case .reportOnlyMismatch(let found) = self else { return nil }
    return "report-only-mismatch: \(UpstreamRefusal.mismatch(found: found))"
  }
}

/// A result in one word. The raw value is that of $upstream_ssl_result. It holds no reference: a request copies it.
public enum TrustOutcome: String, Sendable, CaseIterable {
  /// Plain HTTP, or no handshake's end.
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
