package import Crypto

/// Certificates that no handshake of this process has seen: a trusted front has sent them in a field
/// (`real_client_cert_header`).
extension ServerTLSContext {
  /// The chain that `judge` has verified under this digest, and when it must be verified again; nil if it must be now.
  /// `now` and `end`: seconds since 1970.
  ///
  /// What holds of `VerifiedChainCache` holds here: a reload, a changed CA, list or setting makes a new context, and an
  /// entry ends with the first certificate of its chain, with the first CRL, and after ten minutes.
  ///
  /// `sent`: the certificates of the chain that the front sent.
  package func knownChain(
    _ digest: [UInt8], at now: Int64
  ) -> (chain: VerifiedChain, sent: [Certificate], end: Int64)? {
    relayedChains.find(VerifiedChainCache.Key(digest: digest), now: now).map {
      ($0.chain, $0.sent.certificates, $0.end)
    }
  }

  /// Judges a client's certificates as a handshake with this server block would: by its CAs, CRLs and depth. Nobody has
  /// proved to this process that the client has the key: the front did that, so call this for a trusted front only.
  ///
  /// Asks no OCSP responder, and judges no access rules. `certificates`: leaf first, as the front sent them. `digest`: the
  /// SHA-256 of what they were read from, to remember the chain; nil: it isn't remembered.
  package func judge(_ certificates: [Certificate], from digest: [UInt8]? = nil, at now: Int64) -> ClientJudgement {
    guard let leaf = certificates.first, settings.verification != .off else { return .absent(at: now) }
    // No pin vouches for a key whose proof sallyport hasn't seen, and bundles judge handshakes only. The configuration has
    // no such server block.
    guard pins == nil, bundles == nil else {
      return .refused(leaf, code: ClientPins.mismatch, "a front's field is judged by CAs of files only", at: now)
    }
    let judgement = ClientJudge.judge(
      leaf, sent: Array(certificates.dropFirst()), at: now, by: ClientPolicy(context: self, chooser: nil), .front)
    if case .verified(let chain) = judgement.verdict, let digest {
      relayedChains.keep(
        chain, sent: SharedCertificates(certificates, in: chain), for: VerifiedChainCache.Key(digest: digest),
        judgementEnd: judgementEnd(of: now), now: now)
    }
    return judgement
  }
}

extension VerifiedChain {
  /// The certificates among `sent` that belong to the chain: others that somebody sent with them decide nothing.
  package func part(of sent: [Certificate]) -> [Certificate] {
    let own = [leaf] + others
    return sent.compactMap { one in own.first { $0 == one } }
  }
}
