import COpenSSL
import Crypto
import SPIFFE

/// The result of verifying a chain from a leaf to trust anchors.
enum ChainFinding {
  case verified(VerifiedChain)
  case faulty(ChainError)
  /// There were no anchors, so no verification ran.
  case unseen

  var verified: VerifiedChain? { if case .verified(let chain) = self { chain } else { nil } }
  var fault: ChainError? { if case .faulty(let fault) = self { fault } else { nil } }
}

/// The decisive fault of a chain: a revocation if there is one, else the first fault.
struct ChainError: Error, Hashable {
  enum Kind: Hashable {
    /// The chain leads to no trust anchor. Nothing else is known about it yet.
    case unanchored
    case expired
    case revoked
    case other
  }

  var kind: Kind
  /// `10:certificate has expired`
  var text: String
  /// X509_V_ERR_…
  var code: Int32

  init(kind: Kind, text: String, code: Int32 = X509_V_ERR_UNSPECIFIED) {
    self.kind = kind
    self.text = text
    self.code = code
  }

  var refusal: UpstreamRefusal {
    switch kind {
    case .unanchored, .other: .chain(text)
    case .expired: .expired(text)
    case .revoked: .revoked(text)
    }
  }
}

/// The facts about a peer that presented a certificate. They contain no decision.
struct PeerFacts {
  var leaf: Certificate
  /// The result of verifying against the trust anchors.
  var chain: ChainFinding
  /// The result of verifying against the pinned certificates, each as an anchor (mode `certificate`).
  var pinnedChain: ChainFinding
  /// Whether the leaf is valid for the expected name.
  var matchesName: Bool
  /// The expected name, for messages.
  var name: String
  /// The strength of the leaf's key, in bits of security (EVP_PKEY_get_security_bits(3)).
  var keyBits: Int

  /// The verified chain: one that ends at a pinned certificate, else one that ends at a trust anchor.
  var verified: VerifiedChain? { pinnedChain.verified ?? chain.verified }

  /// Why no chain verified. When a chain reaches a pinned certificate, its fault says more than that it reached no
  /// anchor.
  fileprivate var refusal: UpstreamRefusal {
    if let fault = pinnedChain.fault, fault.kind != .unanchored { return fault.refusal }
    return (chain.fault ?? pinnedChain.fault)?.refusal ?? .chain("nothing to verify against")
  }

  /// A revocation, unless the chain verified against the anchors: that verification has already checked every CRL.
  fileprivate var revocation: UpstreamRefusal? {
    if chain.verified != nil { return nil }
    return [pinnedChain.fault, chain.fault].lazy.compactMap { $0 }.first { $0.kind == .revoked }?.refusal
  }
}

extension TrustTerms where Pins == PinSet {
  /// The fewest bits of security of a pinned key. RSA of 1024 bits has 80; an attacker can compute anything weaker
  /// (NIST SP 800-57 part 1, §5.6).
  static var leastKeyBits: Int { 80 }

  /// Decides in the order of docs/SECURITY.md, *Trust in upstreams*: chain, name, pin. A pure function, the same for a new
  /// handshake and for a resumed session.
  func judge(_ facts: PeerFacts) -> TrustResult {
    switch self {
    case .anybody: return .unverified
    case .verified(_, let checksName):
      guard facts.verified != nil else { return .refused(facts.refusal) }
      return nameFault(checksName, facts) ?? .trusted
    case .workload(_, let ids):
      guard let chain = facts.verified else { return .refused(facts.refusal) }
      guard let id = try? SVIDRule.id(of: chain.leaf), ids.contains(where: { $0.matches(id) }) else {
        return .refused(.name(expected: ids.map(\.description).joined(separator: " ")))
      }
      return .trusted
    case .pinned(let pins, _, let checksName, let reportsOnly):
      guard let chain = facts.verified else { return .refused(facts.refusal) }
      if let fault = nameFault(checksName, facts) { return fault }
      if pins.matches(leaf: chain.leaf) || chain.others.contains(where: pins.matches(verified:)) { return .trusted }
      let found = pins.spelling(of: facts.leaf)
      return reportsOnly ? .reportOnlyMismatch(found: found) : .refused(.pin(found: found, isVerified: true))
    case .pinnedLeaf(let pins, _, let checksName):
      if let fault = inexcusable(pins, facts) { return .refused(fault) }
      if let fault = nameFault(checksName, facts) { return fault }
      guard pins.matches(leaf: facts.leaf) else { return .refused(.pin(found: pins.spelling(of: facts.leaf))) }
      return facts.verified == nil ? .trustedByPin : .trusted
    }
  }

  private func nameFault(_ checksName: Bool, _ facts: PeerFacts) -> TrustResult? {
    checksName && !facts.matchesName ? .refused(.name(expected: facts.name)) : nil
  }

  /// Returns a fault that no pin excuses. A revocation is one. So is a key so weak that an attacker can compute it,
  /// because the pin is of that key. If the certificate itself is a pin, its dates and usage are checked too.
  private func inexcusable(_ pins: PinSet, _ facts: PeerFacts) -> UpstreamRefusal? {
    if let revocation = facts.revocation { return revocation }
    if facts.keyBits < Self.leastKeyBits { return .chain("the key is too weak for any pin: \(facts.keyBits) bits") }
    if facts.chain.verified == nil, pins.holdsFile(of: facts.leaf), let fault = facts.pinnedChain.fault {
      return fault.refusal
    }
    return nil
  }
}
