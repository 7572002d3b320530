import Crypto

/// What a walk from a leaf to anchors came to.
enum ChainFinding {
  case verified(VerifiedChain)
  case faulty(ChainFault)
  /// There was nothing to verify against, or nobody asked.
  case unseen

  var verified: VerifiedChain? { if case .verified(let chain) = self { chain } else { nil } }
  var fault: ChainFault? { if case .faulty(let fault) = self { fault } else { nil } }
}

/// The first thing that is wrong with a chain, and what must not be excused.
struct ChainFault: Error, Hashable {
  enum Kind: Hashable {
    /// No way to an anchor: nothing is known of the chain yet but that.
    case unanchored
    case expired
    case revoked
    case other
  }

  var kind: Kind
  /// `10:certificate has expired`
  var text: String

  var refusal: UpstreamRefusal {
    switch kind {
    case .unanchored, .other: .chain(text)
    case .expired: .expired(text)
    case .revoked: .revoked(text)
    }
  }
}

/// What was found of a peer that showed a certificate. Nothing in it is a decision.
struct PeerFacts {
  var leaf: Certificate
  /// Against the anchors.
  var chain: ChainFinding
  /// Against the certificates that were given as pins, each an anchor of its own (mode `certificate`).
  var pinnedChain: ChainFinding
  /// The leaf is for the name that it must be for.
  var matchesName: Bool
  /// The name, for messages.
  var name: String
  /// What the leaf's key is worth, in bits of security (EVP_PKEY_get_security_bits(3)).
  var keyBits: Int

  /// The chain by which it is let in: one that ends at a pinned certificate, else one that ends at an anchor.
  var verified: VerifiedChain? { pinnedChain.verified ?? chain.verified }

  /// Why there is none. Where a pinned certificate was reached, what is wrong on the way to it says more than that the
  /// anchors were not.
  fileprivate var refusal: UpstreamRefusal {
    if let fault = pinnedChain.fault, fault.kind != .unanchored { return fault.refusal }
    return (chain.fault ?? pinnedChain.fault)?.refusal ?? .chain("nothing to verify against")
  }

  /// Whoever verifies against the anchors was looked for in every list that there is.
  fileprivate var revocation: UpstreamRefusal? {
    if chain.verified != nil { return nil }
    return [pinnedChain.fault, chain.fault].lazy.compactMap { $0 }.first { $0.kind == .revoked }?.refusal
  }
}

extension TrustTerms where Pins == PinSet {
  /// RSA of 1024 bits has 80: what is worth less anybody can compute (NIST SP 800-57 part 1, §5.6).
  static var leastKeyBits: Int { 80 }

  /// The decision, in the order of docs/SECURITY.md, *Upstreams*: chain, name, pin. Pure: the same for a new handshake
  /// and for a session that is resumed.
  func judge(_ facts: PeerFacts) -> TrustResult {
    switch self {
    case .anybody: return .unverified
    case .verified(_, let checksName):
      guard facts.verified != nil else { return .refused(facts.refusal) }
      return nameFault(checksName, facts) ?? .trusted
    case .pinned(let pins, _, let checksName, let reportsOnly):
      guard let chain = facts.verified else { return .refused(facts.refusal) }
      if let fault = nameFault(checksName, facts) { return fault }
      if pins.matches(leaf: chain.leaf) || chain.others.contains(where: pins.matches(verified:)) { return .trusted }
      let found = pins.spelling(of: facts.leaf)
      return reportsOnly ? .reportOnlyMismatch(found: found) : .refused(.pin(found: found))
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

  /// What no pin excuses: revocation; a key that anybody can compute, since the pin is of that key; and of a certificate
  /// that was itself given as a pin, its own dates and usage.
  private func inexcusable(_ pins: PinSet, _ facts: PeerFacts) -> UpstreamRefusal? {
    if let revocation = facts.revocation { return revocation }
    if facts.keyBits < Self.leastKeyBits { return .chain("the key is too weak for any pin: \(facts.keyBits) bits") }
    if facts.chain.verified == nil, pins.holdsFile(of: facts.leaf), let fault = facts.pinnedChain.fault {
      return fault.refusal
    }
    return nil
  }
}
